"""Mnemonics of labels: letters with a mark, by which keys open menus, as in _File, E&xit and
열기(_O).

A model reads a label without its mark. The translation has it before a word that begins with the
same letter, else before its first letter; in Chinese, Japanese and Korean in brackets at the end,
as the desktops write it there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from regard.common.lazy import lazy_pattern
from regard.data.letter_case import PLAIN, LetterCase
from regard.data.spans import KEPT, find_spans

LONGEST, FEW_WORDS = 60, 3
"""Characters of a label at most; and words up to which a line need not look like one."""
_TITLE_WORDS = """
    a an and as at but by for from if in into is it its nor of off on onto or out over per than that
    the to up via vs when with without your
"""
_SMALL = frozenset(_TITLE_WORDS.split())
"""Words that English titles write in small letters."""
Encode = Callable[[str], list[int]]
"""Returns the token ids of a text."""
_MARK = lazy_pattern("[_&~]")
_AT_END = lazy_pattern(r"\s?\(([_&~])([A-Z]|(?<!~)[0-9])\)(?=[\s.:…]*\Z)")
_WITHIN = lazy_pattern(
    r"(?<![\w$=/\\@#*<(\[\"'“])([^\W\d_]*)([_&~])([^\W\d_][^\W\d_'’]*)(?![\w=;/\\@)\]])"
)
_SENTENCE_END = lazy_pattern(r"[^.\s]\s?[.!?][\"'”’»)\s]*\Z")
_LETTER = lazy_pattern(r"[^\W\d_]")
_NO_LATIN = lazy_pattern("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff가-힣]")


def strip_mnemonic(line: str, encode: Encode) -> tuple[str, str]:
    """Return a label without the mark of its mnemonic, and the mark with the letter; any other
    line, and nothing.

    A mark within a word is one if the word is better known than both sides of it: E&xit, not R&D.
    """
    if len(line) > LONGEST or not _MARK.search(line):
        return line, ""
    marks = _outside_spans(_MARK, line)
    if len(marks) != 1:
        return line, ""
    if match := _AT_END.search(line):
        return line[: match.start()] + line[match.end() :], match[1] + match[2]
    match = next(
        (match for match in _WITHIN.finditer(line) if match.start(2) == marks[0]), None
    )
    if match is None or not _is_label(match, encode):
        return line, ""
    # Such labels have their mark in brackets, or before all else.
    if match.start() > 0 and _NO_LATIN.search(line):
        return line, ""
    return line[: match.start(2)] + line[match.end(2) :], match[2] + match[3][0]


def _is_label(match: re.Match[str], encode: Encode) -> bool:
    head, mark, tail = match.groups()
    if head:
        is_word = head[0].isupper() and tail[0].islower() and len(head + tail) > 2
        return is_word and len(encode(head + tail)) < len(encode(head)) + len(
            encode(tail)
        )
    is_capital = tail[0].isupper()
    if len(tail) < 2 or (mark == "~" and not is_capital):
        return False
    if len(match.string.split()) <= FEW_WORDS:
        return True
    return is_capital and mark != "~" and _is_title(match)


def _is_title(match: re.Match[str]) -> bool:
    """Return whether a line of many words is no prose: its first word has the mark, or it is
    written as titles are.

    In English these have capitals but for a few words, in other languages in more words than not.
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
    """Return where a pattern matches outside of what is kept, such as placeholders."""
    spans = [span for span in find_spans(line) if span.kind in KEPT]
    starts = (match.start() for match in pattern.finditer(line))
    return [
        start
        for start in starts
        if not any(span.start <= start < span.end for span in spans)
    ]


def insert_mnemonic(text: str, mnemonic: str, case: LetterCase = PLAIN) -> str:
    """Return a translation with a mark and its letter, as `strip_mnemonic` returns them; as it is
    if there are none.

    `case`: the rules of the label's language, to which the letter belongs.
    """
    if not mnemonic:
        return text
    mark = mnemonic[0]
    letter = mnemonic[1]
    if not _NO_LATIN.search(text):
        beginning = re.compile(rf"(?<![^\W_]){letter}", re.IGNORECASE)
        if starts := _outside_spans(beginning, text) or _outside_spans(_LETTER, text):
            return text[: starts[0]] + mark + text[starts[0] :]
    end = len(text.rstrip(" .:…"))
    # Brackets would go on with it.
    gap = " " * any(span.end == end for span in find_spans(text) if span.kind in KEPT)
    return f"{text[:end]}{gap}({mark}{case.upper(letter)}){text[end:]}"
