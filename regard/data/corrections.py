"""Test translations as a table for a native reader: written to be corrected, and read again."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from regard.common.atomic import write_bytes
from regard.common.errors import DataError
from regard.common.reading import file_bytes

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
        number = 1
        while (kept := path.with_stem(f"{path.stem}-{number}")).exists():
            number += 1
        path.rename(kept)
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(_COLUMNS)
    writer.writerows((*row, "") for row in rows)
    write_bytes(path, table.getvalue().encode("utf-8-sig"))
    return path


def _is_corrected(path: Path) -> bool:
    """Return whether a table has corrections, or may have them, as it cannot be read."""
    try:
        return any(pair.correction for pair in read_corrections(path))
    except DataError:
        return True


def read_corrections(path: Path) -> list[CorrectedPair]:
    """Read the table again, with commas, semicolons or tabs. Raises DataError if it is another."""
    try:
        text = file_bytes(path).decode("utf-8-sig")
        header = text.partition("\n")[0]
        delimiter = max(",;\t", key=header.count)
        table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
        rows = [*table]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise DataError(
            f"{path}: cannot be read ({problem}); save it as CSV UTF-8"
        ) from None
    if not {*_COLUMNS} <= {*(table.fieldnames or ())}:
        raise DataError(
            f"{path}: wanted the columns {', '.join(_COLUMNS)} of {TRANSLATIONS}, got {header:.80}"
        )
    cells = ([row[name] for name in CorrectedPair._fields] for row in rows)
    return [CorrectedPair(*map(str.strip, row)) for row in cells if None not in row]
