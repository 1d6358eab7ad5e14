"""The translation of a line, with the links by which marks in it are put back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class AlignedLine(NamedTuple):
    """The translation of a line. `alignments`: links (source word, target word) from 0; None:
    unknown.

    Words are what stands between single spaces in the line and in its translation. Other links are
    ignored.
    """

    text: str
    alignments: Sequence[tuple[int, int]] | None = None
