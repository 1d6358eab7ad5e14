"""Message files of Java (properties)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from regard.common.lazy import lazy_pattern
from regard.contracts.dialects import PLAIN
from regard.documents.document import (
    DocumentOptions,
    DocumentText,
    EditedText,
    Slot,
    value_slot,
)
from regard.documents.encoding import EncodedText, decode_file
from regard.documents.key_values import (
    LAST,
    Escapes,
    key_values,
    wrapped,
)
from regard.text.text_path import AUTO, QUOTING

_BREAK = r"\\(?:\r\n|[\r\n])"
_LINE = lazy_pattern(
    rf"[ \t\f]*(?:(?P<comment>[#!][^\r\n]*)|(?P<key>(?:\\(?:\r\n|.)|[^\\=: \t\f\r\n])*)"
    rf"(?:[ \t\f]|{_BREAK})*[=:]?(?:[ \t\f]|{_BREAK})*(?P<value>(?:\\(?:\r\n|.)|[^\\\r\n])*))"
    r"(?:\r\n|[\r\n]|\Z)",
    re.DOTALL,
)
_ESCAPE = lazy_pattern(
    rf"(?:\\u[0-9A-Fa-f]{{4}})+|{_BREAK}[ \t\f]*|\\(.)|\\", re.DOTALL
)
_CONTINUATION = lazy_pattern(rf"{_BREAK}[ \t\f]*")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NECESSARY = {letter: f"\\{sign}" for sign, letter in _LETTERS.items()} | {"\\": r"\\"}
_CONTRACTION = lazy_pattern(r"[^\W\d_]'[^\W\d_]")
_ARGUMENT = lazy_pattern(r"\{\s*[0-9]")


class _Value(NamedTuple):
    """A value between two offsets of the file."""

    start: int
    end: int
    text: DocumentText

    @property
    def is_message(self) -> bool:
        """True if the value has arguments, so that `MessageFormat` may read it."""
        return bool(_ARGUMENT.search(self.text.text))


def read_properties(data: bytes, name: str, options: DocumentOptions) -> EditedText:
    """Read a file of properties, in UTF-8 or, if it is none, in Latin-1. Raises DataError for
    escapes that Java refuses.
    """
    try:
        data.decode()
        source = decode_file(data, name)
    except UnicodeDecodeError:
        source = decode_file(data, name, "latin-1")
    last = "\xff" if source.encoding == "latin-1" else LAST
    escapes = Escapes.of(
        source.text, "\x7f" if source.text.isascii() else last, _NECESSARY
    )
    values = [*_values(source)]
    messages = [value.text.text for value in values if value.is_message]
    # A single apostrophe between letters would be an error in a message.
    are_read = messages and not any(map(_CONTRACTION.search, messages))
    plain = PLAIN if are_read else AUTO
    slots = [_slot(source.text, value, escapes, plain) for value in values]
    document = key_values(source, slots, options)
    if source.encoding == "latin-1":
        note = "no UTF-8, so it is read as ISO-8859-1, and written so with \\u"
        document.notes = (note, *document.notes)
    return document


def _values(source: EncodedText) -> Iterator[_Value]:
    comment = ""
    position = 0
    length = len(source.text)
    while position < length:
        match = _LINE.match(source.text, position)
        if match is None:
            raise source.refused(length, "the file ends with a backslash")
        position = match.end()
        if match["comment"]:
            comment = f"{comment}\n{match['comment'][1:].strip()}".strip()
            continue
        if match["value"]:
            key, value = (
                _decoded(source, *match.span(group)) for group in ("key", "value")
            )
            text = DocumentText(value, f"key {key}", comment=comment)
            yield _Value(*match.span("value"), text)
        comment = ""


def _decoded(source: EncodedText, start: int, end: int) -> str:
    """Return a key or value without escapes."""

    def character(match: re.Match[str]) -> str:
        if match[0][:2] == "\\u":
            if match[1]:
                problem = r"\u without four digits, which Java refuses; write \\u for the letter"
                raise source.refused(start + match.start(), problem)
            units = bytes.fromhex(match[0].replace("\\u", ""))
            return units.decode("utf-16-be", "surrogatepass")
        return _LETTERS.get(match[1], match[1]) if match[1] else ""

    return _ESCAPE.sub(character, source.text[start:end])


def _slot(source: str, value: _Value, escapes: Escapes, plain: str) -> Slot:
    """Return the slot of a value. Apostrophes of a message are written twice, and read once.

    `plain`: the dialect of other values; `auto` if no program reads messages here.
    """
    start, end, described = value
    text = described.text
    dialect = plain
    is_doubled = False
    if value.is_message and plain == PLAIN:
        is_doubled = "'" not in text.replace("''", "") and "choice" not in text
        dialect = "icu" if is_doubled else QUOTING
    if is_doubled:
        text = text.replace("''", "'")

    def escape(translation: str) -> str:
        if is_doubled:
            translation = translation.replace("'", "''")
        return _continued(translation, source[start:end], escapes)

    return value_slot(
        start, end, replace(described, text=text, dialect=dialect), escape
    )


def _continued(text: str, raw: str, escapes: Escapes) -> str:
    """Return a value with escapes, and continued on as wide lines as that which it replaces."""
    lines = [escapes.write(line) for line in text.split("\n")]
    lines = [re.sub(r"\A ", r"\\ ", line) for line in lines]
    match = _CONTINUATION.search(raw)
    if match is None:
        return r"\n".join(lines)
    gap = match[0]
    width = max(map(len, _CONTINUATION.split(raw)))
    newline = rf"\n{gap}" if rf"\n{gap}" in raw else r"\n"
    return newline.join(f" {gap}".join(wrapped(line, width)) for line in lines)
