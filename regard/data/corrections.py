"""Test translations as a table for a native reader: written to be corrected, and read again."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from regard.common.atomic import write_bytes
from regard.common.errors import DataError
from regard.data.corrected_tables import named_cells, numbered

TRANSLATIONS = "test-translations.csv"
"""The table in a run folder."""
_COLUMNS = ("source", "reference", "translation", "correction")


class CorrectedPair(NamedTuple):
    """A source with its reference, and the reference that a reader has written; empty if none."""

    source: str
    reference: str
    correction: str


def write_translations(run: Path, rows: Iterable[tuple[str, str, str]]) -> Path:
    """Write sources, references and translations, with an empty column for corrections.

    An earlier table with corrections is kept under a numbered name. The mark at the beginning tells
    spreadsheets that it is UTF-8.
    """
    path = run / TRANSLATIONS
    if path.exists() and _is_corrected(path):
        path.rename(numbered(path))
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(_COLUMNS)
    writer.writerows((*row, "") for row in rows)
    write_bytes(path, table.getvalue().encode("utf-8-sig"))
    return path


def _is_corrected(path: Path) -> bool:
    """Return whether a table has corrections, or may have them, as it cannot be read."""
    try:
        return any(pair.correction for pair in read_corrected(path))
    except DataError:
        return True


def read_corrected(path: Path) -> list[CorrectedPair]:
    """Read the table again, as any spreadsheet saves it. Raises DataError if it is another."""
    rows = named_cells(path, (*CorrectedPair._fields, "translation"))
    return [CorrectedPair(*cells[:-1]) for cells in rows]
