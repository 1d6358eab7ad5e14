"""Warnings about single lines, counted instead of printed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from regard.common.errors import LineWarning


@dataclass
class LineWarnings:
    """Indices of the lines with a warning, in order, and the texts of all other warnings."""

    lines: list[int] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


@contextmanager
def caught_warnings() -> Iterator[LineWarnings]:
    """Catch all warnings of a block, and sort them once it has ended."""
    result = LineWarnings()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield result
    messages = [warning.message for warning in caught]
    result.lines = sorted(
        {message.index for message in messages if isinstance(message, LineWarning)}
    )
    result.others = [
        str(message) for message in messages if not isinstance(message, LineWarning)
    ]
