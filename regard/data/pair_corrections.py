"""Corrections of pairs: a table of suspect pairs, in whose last columns somebody has written how
they should be.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.common.errors import DataError
from regard.data.corrected_tables import named_cells
from regard.data.pairs import excerpt_of
from regard.data.text import clean

COLUMNS = (
    "line",
    "kinds",
    "source",
    "target",
    "details",
    "proposed source",
    "proposed target",
)
"""Columns of a table of suspect pairs."""
READ_COLUMNS = ("line", "source", "target", "proposed source", "proposed target")
"""Those that are read from a corrected table."""


@dataclass(frozen=True)
class Correction:
    """A cleaned pair as it was, and as it should be."""

    pair: tuple[str, str]
    corrected: tuple[str, str]

    def why_not(self, pair: tuple[str, str]) -> str:
        """Say why it is not a correction of a raw pair; empty if it is."""
        source, target = map(clean, pair)
        if (source, target) == self.pair:
            return ""
        was = " ↔ ".join(map(excerpt_of, self.pair))
        return f"was {was}, and is {excerpt_of(source)} ↔ {excerpt_of(target)} now"


def read_corrections(name: str) -> dict[int, Correction]:
    """Read a table of suspect pairs with corrections, by line; a row corrects nothing if no side is
    proposed.

    Raises DataError, with all causes, if it is no such table, a row has no line or only one
    proposed side, or two rows correct one line.
    """
    corrections = dict[int, Correction]()
    causes = []
    for line, *cells in named_cells(Path(name), READ_COLUMNS):
        source, target, new_source, new_target = map(clean, cells)
        if not new_source and not new_target:
            continue
        if not line.isdecimal():
            causes.append(f"{name}: wanted the number of a line, got {line[:20]!r}")
        elif not new_source or not new_target:
            causes.append(
                f"{name}: line {line} has only one proposed side; give both, or neither"
            )
        elif int(line) in corrections:
            causes.append(f"{name}: line {line} is corrected twice; keep one")
        else:
            pair = Correction((source, target), (new_source, new_target))
            corrections[int(line)] = pair
    DataError.raise_all(causes)
    return corrections
