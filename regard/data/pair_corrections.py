"""Corrections of pairs: a table of suspect pairs, in whose last columns somebody has written how
they should be.
"""

from __future__ import annotations

from pathlib import Path

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.corrected_tables import named_cells
from regard.data.pairs import format_lines
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
Row = tuple[str, str]
"""Source and target."""
READ_COLUMNS = ("line", "source", "target", "proposed source", "proposed target")
"""Those that are read from a corrected table."""


class Corrections:
    """Corrections of pairs, which are found by their texts, wherever they stand now."""

    def __init__(self, name: str) -> None:
        """Read a table of suspect pairs; a row corrects nothing if no side is proposed, and keeps
        the other side if one is.

        Raises DataError, with all causes, if it is no such table, or a row has no line or leaves a
        side empty.
        """
        self.name = name
        self.taken = 0  # pairs that have been corrected
        self._by_pair = dict[Row, dict[int, Row]]()
        self._without = dict[int, Row]()  # pairs without a correction, by line
        self._unused = set[Row]()
        self._edited = list[int]()  # lines that were changed in another column
        causes = []
        for number, *cells in named_cells(Path(name), READ_COLUMNS):
            source, target, new_source, new_target = map(clean, cells)
            pair = source, target
            corrected = new_source or source, new_target or target
            if not number.isdecimal():
                causes.append(f"wanted the number of a line, got {number[:20]!r}")
            elif not new_source and not new_target:
                self._without[int(number)] = pair
            elif not all(corrected):
                causes.append(f"line {number} has a side that is empty; fill it in")
            else:
                self._by_pair.setdefault(pair, {})[int(number)] = corrected
        DataError.raise_all([f"{name}: {cause}" for cause in causes])
        self._unused.update(self._by_pair)

    def of(self, line: int, row: Row) -> Row | None:
        """Return the correction of a raw pair; None if it has none."""
        source, target = map(clean, row)
        written = self._without.get(line, (source, target))
        if (written[0] == source) != (written[1] == target):
            self._edited.append(line)
        by_line = self._by_pair.get((source, target))
        if by_line is None:
            return None
        self.taken += 1
        self._unused.discard((source, target))
        return by_line.get(line) or next(iter(by_line.values()))

    def notes(self) -> list[str]:
        """Return sentences on how many pairs were corrected, and on what was not used.

        Raises DataError if there are corrections, and none of them fits a pair.
        """
        lines = sorted(line for pair in self._unused for line in self._by_pair[pair])
        shown = format_lines(lines)
        if lines and not self.taken:
            raise DataError(
                f"{self.name}: none of the corrected pairs is there{shown}: they are of other "
                "pairs, or these have been corrected already; check them again (`regard check`)"
            )
        notes = [f"{self.name}: {counted(self.taken, 'pair')} corrected"]
        if lines:
            notes.append(
                f"{self.name}: {counted(len(lines), 'correction')} not used, as no pair has these "
                f"texts now{shown}"
            )
        if self._edited:
            notes.append(
                f"{self.name}: source or target was changed{format_lines(self._edited)}, which "
                "corrects nothing: write into the columns proposed source and proposed target"
            )
        return notes
