"""Tables that were written to be corrected, and are read again as spreadsheets save them."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from regard.common.atomic import write_bytes
from regard.common.errors import DataError
from regard.common.reading import file_bytes
from regard.data.spreadsheets import read_spreadsheet
from regard.data.text import LineReader

_SPREADSHEETS = (".xlsx", ".xls", ".ods")


def named_cells(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Return the cells of these columns, stripped, in each row below the one that names them; rows
    that are too short are left out.

    Raises DataError for a file that is no such table.
    """
    is_spreadsheet = path.suffix.lower() in _SPREADSHEETS
    rows = _spreadsheet_rows(path) if is_spreadsheet else _delimited_rows(path)
    for number, row in enumerate(rows):
        if {*columns} <= {*row}:
            places = [row.index(column) for column in columns]
            complete = [r for r in rows[number + 1 :] if len(r) > max(places)]
            return [[row[place].strip() for place in places] for row in complete]
    first = ", ".join(rows[0]) if rows else "nothing"
    raise DataError(f"{path}: wanted the columns {', '.join(columns)}, got {first:.80}")


def write_table(path: Path, content: bytes) -> Path | None:
    """Write a table, and keep another one of that name, in which somebody may have written, under a
    numbered name, which is returned.
    """
    kept = None
    if path.is_file() and path.read_bytes() != content:
        kept = numbered(path)
        write_bytes(kept, path.read_bytes())
    write_bytes(path, content)
    return kept


def numbered(path: Path) -> Path:
    """Return the first name with a number that no file has."""
    number = 1
    while (name := path.with_stem(f"{path.stem}-{number}")).exists():
        number += 1
    return name


def _delimited_rows(path: Path) -> list[list[str]]:
    """Read CSV, or TSV, by the delimiter that is most frequent in its first line."""
    try:
        text = file_bytes(path).decode("utf-8-sig")
        header = text.partition("\n")[0]
        delimiter = max(",;\t", key=header.count)
        return [*csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)]
    except OSError as problem:
        raise DataError(
            f"{path}: cannot be read ({problem.strerror}); check its name"
        ) from None
    except (UnicodeDecodeError, csv.Error) as problem:
        raise DataError(
            f"{path}: cannot be read ({problem}); save it as CSV UTF-8"
        ) from None


def _spreadsheet_rows(path: Path) -> list[list[str]]:
    reader = LineReader(path)
    records = [record for record, _ in read_spreadsheet(reader, "").records]
    DataError.raise_all(reader.causes)
    return [[cell or "" for cell in record] for record in records]
