"""Mnemonics of labels: letters with a mark, by which keys open menus, as in _File, E&xit and 열기(_O).

A model reads a label without its mark. The translation has it at the same letter if it has one, else at its first; in
Chinese, Japanese and Korean in brackets at the end, as the desktops write it there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LONGEST = 60
"""Characters of a label; in longer lines such marks are something else."""
Encode = Callable[[str], list[int]]
"""Returns the token ids of a text."""
_BEHIND = re.compile(r"\s?\(([_&~])([A-Za-z0-9])\)")
_WITHIN = re.compile(r"(?<![\w&~$=/\\])([^\W\d_]*)([_&~])([^\W\d_][^\W\d_'’]*)(?![\w&~=;/\\])")
_LETTER = re.compile(r"[^\W\d_]")
_NO_LATIN = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff가-힣]")


def take_mnemonic(line: str, encode: Encode) -> tuple[str, str]:
    """Return a label without the mark of its mnemonic, and the mark with the letter; any other line, and nothing.

    A mark within a word is one if the word is better known than what stands on both sides of it: E&xit, not R&D.
    """
    if len(line) > LONGEST:
        return line, ""
    if match := _BEHIND.search(line):
        return line[: match.start()] + line[match.end() :], match[1] + match[2]
    matches = [*_WITHIN.finditer(line)]
    if len(matches) != 1:
        return line, ""
    head, mark, tail = matches[0].groups()
    if head and len(encode(head + tail)) >= len(encode(head)) + len(encode(tail)):
        return line, ""
    if not head and (len(tail) == 1 or (mark == "~" and not tail[0].isupper())):
        return line, ""
    return line[: matches[0].start(2)] + line[matches[0].end(2) :], mark + tail[0]


def put_mnemonic(text: str, mnemonic: str) -> str:
    """Return a translation with a mark and its letter, as `take_mnemonic` returns them; as it is if there are none."""
    if not mnemonic:
        return text
    mark, letter = mnemonic[0], mnemonic[1]
    forms = (rf"(?<![^\W_]){letter}", letter)
    places = (re.search(form, text, re.IGNORECASE) for form in forms)
    place = None if _NO_LATIN.search(text) else next(filter(None, places), None) or _LETTER.search(text)
    if place:
        return text[: place.start()] + mark + text[place.start() :]
    end = len(text.rstrip(" .:…"))
    return f"{text[:end]}({mark}{letter.upper()}){text[end:]}"
