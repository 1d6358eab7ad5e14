"""Escapes of apostrophes and quotation marks in strings of programs, such as isn\\'t and isn''t."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from regard.common.lazy import lazy_pattern
from regard.text.translation import Translation

_BACKSLASHED = (("\\'", "'"), ('\\"', '"'))
_DOUBLED = lazy_pattern(r"(?<=[^\W\d_])''(?=[^\W\d_])")
_SINGLE = lazy_pattern(r"(?<=[^\W\d_])'(?=[^\W\d_])")


class Escapes(NamedTuple):
    """Marks that are escaped in a line: by a backslash, or by doubling between two letters."""

    backslashed: tuple[tuple[str, str], ...] = ()
    is_doubled: bool = False

    def write(self, text: str) -> str:
        """Return a text with the marks escaped as they are in the line."""
        for escaped, mark in self.backslashed:
            text = text.replace(mark, escaped)
        return _SINGLE.sub("''", text) if self.is_doubled else text

    def restore(self, result: Translation) -> Translation:
        """Return the translation of a line that was read without escapes, with them."""
        if self == NO_ESCAPES:
            return result
        parts = tuple(
            part._replace(source=self.write(part.source), text=self.write(part.text))
            for part in result.parts
        )
        nbest = tuple(map(self.restore, result.nbest))
        return replace(result, text=self.write(result.text), parts=parts, nbest=nbest)


NO_ESCAPES = Escapes()


def read_escapes(line: str) -> tuple[str, Escapes]:
    """Return a line as a person reads it, and its escapes.

    A mark that stands in the line without an escape, too, is left as it is.
    """
    backslashed = tuple(
        (escaped, mark)
        for escaped, mark in _BACKSLASHED
        if escaped in line and mark not in line.replace(escaped, "")
    )
    for escaped, mark in backslashed:
        line = line.replace(escaped, mark)
    text = _DOUBLED.sub("'", line)
    return text, Escapes(backslashed, text != line)
