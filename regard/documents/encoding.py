"""Text files of documents: decoded, and encoded as they were, with their byte-order mark."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from regard.common.errors import DataError

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Encodings by byte-order marks; that of UTF-32 begins like that of UTF-16."""


@dataclass(frozen=True)
class EncodedText:
    """A decoded file: its text, encoding, byte-order mark and name. Line ends are as they were.

    `errors`: the handler of characters that the encoding lacks.
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    name: str = ""
    errors: str = "strict"

    @cached_property
    def _line_feeds(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self.text)]

    def line_of(self, offset: int) -> int:
        """Return the number of the line of an offset."""
        return bisect_left(self._line_feeds, offset) + 1

    def refused(self, offset: int, problem: str) -> DataError:
        """Return the error of a file that is refused at an offset of its text."""
        column = offset - self.text.rfind("\n", 0, offset)
        return DataError(
            f"{self.name}, line {self.line_of(offset)}, column {column}: {problem}"
        )

    def encode(self, text: str) -> bytes:
        """Encode a text as the file was.

        Raises DataError for characters that its encoding lacks.
        """
        try:
            return self.mark + text.encode(self.encoding, self.errors)
        except UnicodeEncodeError as problem:
            character = text[problem.start]
            raise DataError(
                f"the file is {self.encoding}, which has no {character!r}, and its translation "
                "needs it; save the file as UTF-8, and let it say so"
            ) from None


def unescaped(text: str, escape: re.Pattern[str], letters: Mapping[str, str]) -> str:
    """Return a text without the escapes that match a pattern, whose first group is the number of a
    character, and whose second is a letter or the character itself.
    """

    def character(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return letters.get(match[2], match[2])

    return escape.sub(character, text)


def decode_file(data: bytes, name: str, declared: str = "") -> EncodedText:
    """Decode a file by its byte-order mark, or else as it is `declared`, if its format can.

    Raises DataError, with the line, for bytes that the encoding does not have, and for an encoding
    that is not known.
    """
    marks = (mark for mark in _MARKS if data.startswith(mark))
    mark = next(marks, b"")
    encoding = _MARKS.get(mark, declared or "utf-8")
    try:
        codecs.lookup(encoding)
        decoded = EncodedText(data[len(mark) :].decode(encoding), encoding, mark, name)
        if decoded.encode(decoded.text) == data:
            return decoded
        raise LookupError
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, len(mark) + problem.start) + 1
        remedy = ", or let it declare its encoding" if declared else ""
        raise DataError(
            f"{name}: line {line} is not {encoding.upper()} (byte "
            f"{problem.object[problem.start]:#04x}); save the file as UTF-8{remedy}"
        ) from None
    except (LookupError, UnicodeError):
        raise DataError(
            f"{name}: says that it is {encoding!r}, which is no known encoding, or none that can "
            "be written as it was; save it as UTF-8"
        ) from None
