"""Warnings about single lines, counted instead of printed."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from regard.common.errors import LineWarning

KINDS = {
    "is longer than any in training": "longer than any in training",
    "never seen in training": "script never seen in training",
    "repeats": "repetition",
    "does not keep what its line has": "lost placeholder, number or the like",
}
"""Kind of a warning by words of its text; that of any other text is "other"."""


@dataclass
class LineWarnings:
    """Indices of the lines with a warning, in order, their number by kind, and the texts of all
    other warnings.
    """

    lines: list[int] = field(default_factory=list)
    kinds: dict[str, int] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def _kind(text: str) -> str:
    return next((kind for words, kind in KINDS.items() if words in text), "other")


@contextmanager
def caught_warnings() -> Iterator[LineWarnings]:
    """Catch all warnings of a block, and sort them once it has ended."""
    result = LineWarnings()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield result
    messages = [warning.message for warning in caught]
    of_lines = [message for message in messages if isinstance(message, LineWarning)]
    result.lines = sorted({message.index for message in of_lines})
    kinds = {(message.index, _kind(str(message))) for message in of_lines}
    result.kinds = dict(Counter(kind for _, kind in sorted(kinds)))
    result.others = [
        str(message) for message in messages if not isinstance(message, LineWarning)
    ]
