"""Message files of Apple's systems (strings)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.common.lazy import lazy_pattern
from regard.documents.document import (
    DocumentOptions,
    DocumentText,
    EditedText,
    Slot,
    value_slot,
)
from regard.documents.encoding import EncodedText, decode_file, unescaped
from regard.documents.key_values import LAST, Escapes, key_values

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_WORD = r"[\w.$:/-]+"
_GAP = r"(?:\s|/\*.*?\*/|//[^\r\n]*)*"
_ENTRY = lazy_pattern(
    rf"(?P<gap>{_GAP})(?:(?P<key>{_STRING}|{_WORD})"
    rf"(?:{_GAP}={_GAP}(?:(?P<value>{_STRING})|{_WORD}))?{_GAP};|\Z)",
    re.DOTALL,
)
_GAPS = lazy_pattern(_GAP, re.DOTALL)
_COMMENT = lazy_pattern(r"/\*(.*?)\*/", re.DOTALL)
_ESCAPE = lazy_pattern(r"\\(?:[uU]([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}
_NECESSARY = {'"': r"\"", "\\": r"\\"}


def read_strings(data: bytes, name: str, options: DocumentOptions) -> EditedText:
    """Read a file of strings, in UTF-8 or UTF-16. Raises DataError, with the place, for text that
    is no pair of a key and a value.
    """
    wide = {b"\0": "utf-16-be"}.get(data[:1]) or {b"\0": "utf-16-le"}.get(data[1:2])
    source = decode_file(data, name, wide or "")
    return key_values(source, _slots(source), options)


def _slots(source: EncodedText) -> Iterator[Slot]:
    text = source.text
    escapes = Escapes.of(text, LAST, _NECESSARY)
    position = 0
    while position < len(text):
        match = _ENTRY.match(text, position)
        if match is None:
            problem = (
                'wanted "key" = "value"; and comments; give the file as it stands in the project, '
                "not a compiled one, and no list in XML"
            )
            gap = _GAPS.match(text, position)
            raise source.refused(gap.end() if gap else position, problem)
        position = match.end()
        if match["value"]:
            comments = _COMMENT.findall(match["gap"])
            key = unescaped(match["key"].strip('"'), _ESCAPE, _LETTERS)
            value = DocumentText(
                unescaped(match["value"][1:-1], _ESCAPE, _LETTERS),
                f"key {key}",
                "objc",
                comment=comments[-1].strip() if comments else "",
            )
            yield _slot(match, value, escapes)


def _slot(match: re.Match[str], text: DocumentText, escapes: Escapes) -> Slot:
    start, end = match.span("value")
    newline = "\n" if "\n" in match["value"] else r"\n"

    def escape(translation: str) -> str:
        return newline.join(map(escapes.write, translation.split("\n")))

    return value_slot(start + 1, end - 1, text, escape)
