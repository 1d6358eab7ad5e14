"""Mnemonics of labels: a mark before the letter whose key opens a menu, as in _File, E&xit and
열기(_O).

A model reads a label without the mark. The mark is put back before a word of the translation that
begins with the same letter, or before the first letter if there is no such word. In Chinese,
Japanese and Korean it follows at the end in brackets, as is usual on desktops.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from regard.common.lazy import lazy_pattern
from regard.data.letter_case import PLAIN, LetterCase
from regard.data.spans import KEPT, find_spans

LONGEST, FEW_WORDS = 60, 3
"""Maximum number of characters of a label, and most words of a line that is always taken for a
label.
"""
_TITLE_WORDS = """
    a an and as at but by for from if in into is it its nor of off on onto or out over per than that
    the to up via vs when with without your
"""
_SMALL = frozenset(_TITLE_WORDS.split())
"""Words that English titles write in lower case."""
Encode = Callable[[str], list[int]]
"""Function that returns the token ids of a text."""
_MARK = lazy_pattern("[_&~]")
_AT_END = lazy_pattern(r"\s?\(([_&~])([A-Z]|(?<!~)[0-9])\)(?=[\s.:…]*\Z)")
_WITHIN = lazy_pattern(
    r"(?<![\w$=/\\@#*<(\[\"'“])([^\W\d_]*)([_&~])([^\W\d_][^\W\d_'’]*)(?![\w=;/\\@)\]])"
)
_SENTENCE_END = lazy_pattern(r"[^.\s]\s?[.!?][\"'”’»)\s]*\Z")
_LETTER = lazy_pattern(r"[^\W\d_]")
_NO_LATIN = lazy_pattern("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff가-힣]")


def strip_mnemonic(line: str, encode: Encode) -> tuple[str, str]:
    """Return a label without the mark of its mnemonic, and the mark with its letter.

    Any other line is returned unchanged, with an empty mark. A mark inside a word counts if the
    word takes fewer tokens than its two sides, as in E&xit, but not in R&D.
    """
    if len(line) > LONGEST or not _MARK.search(line):
        return line, ""
    marks = _outside_spans(_MARK, line)
    if len(marks) != 1:
        return line, ""
    match = _AT_END.search(line)
    if match is not None:
        return line[: match.start()] + line[match.end() :], match[1] + match[2]

    matches = _WITHIN.finditer(line)
    match = next((match for match in matches if match.start(2) == marks[0]), None)
    if match is None or not _is_label(match, encode):
        return line, ""
    # Chinese, Japanese and Korean labels have the mark in brackets, or at the beginning.
    if match.start() > 0 and _NO_LATIN.search(line):
        return line, ""
    return line[: match.start(2)] + line[match.end(2) :], match[2] + match[3][0]


def _is_label(match: re.Match[str], encode: Encode) -> bool:
    head, mark, tail = match.groups()
    if head:
        word = head + tail
        if not (head[0].isupper() and tail[0].islower() and len(word) > 2):
            return False
        return len(encode(word)) < len(encode(head)) + len(encode(tail))
    is_capital = tail[0].isupper()
    if len(tail) < 2 or (mark == "~" and not is_capital):
        return False
    if len(match.string.split()) <= FEW_WORDS:
        return True
    return is_capital and mark != "~" and _is_title(match)


def _is_title(match: re.Match[str]) -> bool:
    """Return whether a line of many words is a label: its first word has the mark, or it is a
    title.

    English titles capitalise all but a few words; titles in other languages capitalise most words.
    """
    line = match.string
    if _SENTENCE_END.search(line):
        return False
    before = line[: match.start()].split()
    after = line[match.end() :].split()
    if not before:
        return True
    others = [word.strip("()[]\"'“”‘’,:;.…") for word in (*before[1:], *after)]
    small = [word for word in others if word[:1].islower()]
    capitals = [word for word in others if word[:1].isupper()]
    return _SMALL.issuperset(small) or len(capitals) > len(small)


def _outside_spans(pattern: re.Pattern[str], line: str) -> list[int]:
    """Return the starts of matches outside of kept spans, such as placeholders."""
    spans = [span for span in find_spans(line) if span.kind in KEPT]
    starts = (match.start() for match in pattern.finditer(line))
    return [
        start
        for start in starts
        if not any(span.start <= start < span.end for span in spans)
    ]


def insert_mnemonic(text: str, mnemonic: str, case: LetterCase = PLAIN) -> str:
    """Insert a mark and its letter, as `strip_mnemonic` returns them, into a translation.

    `case`: the case rules of the label's language, to which the letter belongs.
    """
    if not mnemonic:
        return text
    mark = mnemonic[0]
    letter = mnemonic[1]
    if not _NO_LATIN.search(text):
        beginning = re.compile(rf"(?<![^\W_]){letter}", re.IGNORECASE)
        starts = _outside_spans(beginning, text) or _outside_spans(_LETTER, text)
        if starts:
            return text[: starts[0]] + mark + text[starts[0] :]

    end = len(text.rstrip(" .:…"))
    kept_spans = (span for span in find_spans(text) if span.kind in KEPT)
    # Without a space, the brackets would become part of a span that ends here.
    gap = " " if any(span.end == end for span in kept_spans) else ""
    return f"{text[:end]}{gap}({mark}{case.upper(letter)}){text[end:]}"
