"""The translation of a line, with the word links that place its marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class AlignedLine(NamedTuple):
    """The translation of a line, with links (source word, target word), counted from 0, or None if
    unknown.

    Words are separated by single spaces in the line and in its translation. Links to other
    positions are ignored. `markup`: the translation with its marks, if these are placed already.
    """

    text: str
    alignments: Sequence[tuple[int, int]] | None = None
    markup: str | None = None
