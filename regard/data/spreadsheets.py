"""Spreadsheets: the rows of a sheet of XLSX, XLS or ODS, read by calamine."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.common.lazy import needs_extra
from regard.data.table_columns import HEAD, Table, holds_names
from regard.data.text import LineReader

MAX_BYTES = 1 << 29
"""Maximum number of bytes of a spreadsheet when it is unpacked."""
MAX_CELLS = 1 << 25
"""Maximum number of cells of a sheet, up to the last that is filled."""
_OLE = b"\xd0\xcf\x11\xe0"
"""First bytes of XLS, and of XLSX with a password."""
_TITLES = 20
"""Rows above a table that may hold its title."""
_CELL = re.compile(rb'<c r="([A-Z]+)(\d+)"')
_FORMULA = re.compile(
    rb'<c r="(\w+)"[^>]*><f\b(?:[^>]*/>|[^>]*>[^<]*</f>)(?:<v ?/>|<v></v>)?</c>'
)
"""A cell of XLSX with a formula and no value."""
_REMEDY = "save the sheet as CSV UTF-8"


def read_spreadsheet(reader: LineReader, sheet: str) -> Table:
    """Read the sheet of that name, or else the first that has pairs; its rows count as lines.

    Raises DataError for a file that cannot be read.
    """
    opened = next(reader.read(lambda file: _sheets(file, reader, sheet)), None)
    if opened is None:  # the reader knows why
        return Table([], iter(()))
    rows, note = opened
    skipped = next((n for n, row in enumerate(rows[:_TITLES]) if _is_row(row)), 0)
    return Table(
        [row for row in rows[skipped : skipped + HEAD] if any(row)],
        ((row, 1) for row in rows[skipped:]),
        skipped=skipped,
        notes=lambda: note,
    )


def _sheets(
    file: BinaryIO, reader: LineReader, wanted: str
) -> Iterator[tuple[list[list[str]], list[str]]]:
    """Yield the rows of a sheet, and sentences on it."""
    path = f"{reader.path}"
    with needs_extra("tables", path, ["python_calamine"]):
        from python_calamine import load_workbook
    with _one_sentence(path, file):
        parts = _check_parts(path, file)
        book = load_workbook(file)
        names = [name for name in book.sheet_names if wanted in ("", name)]
        if not names:
            raise DataError(
                f"{path}: has no sheet {wanted!r}; there are {', '.join(book.sheet_names)}"
            )
        heads = {}
        for name in names:
            _check_cells(f"{path}#{name}", parts.get(name, b""))
            rows = islice(book.get_sheet_by_name(name).iter_rows(), HEAD)
            heads[name] = [row for row in map(_texts, rows) if _is_row(row)]
        named = (name for name, head in heads.items() if head and holds_names(head))
        filled = (name for name, head in heads.items() if head)
        name = next(named, next(filled, names[0]))
        sheet = book.get_sheet_by_name(name)
        notes = _notes(sheet, parts.get(name, b""))
        if len(book.sheet_names) > 1:
            sheets = ", ".join(book.sheet_names)
            notes.insert(
                0, f"sheet {name} of {sheets} was read (FILE#SHEET names another)"
            )
        yield [*map(_texts, sheet.iter_rows())], notes


def _notes(sheet: Any, part: bytes) -> list[str]:
    """Return sentences on cells whose text is elsewhere or unknown."""
    notes = []
    formulas = [cell.decode() for cell in _FORMULA.findall(part)]
    if formulas:
        cells = ", ".join(formulas[:5])
        notes.append(
            f"warning: {counted(len(formulas), 'formula has', 'formulas have')} no stored value "
            f"({cells}{' …' if len(formulas) > 5 else ''}); save the file in a spreadsheet program"
        )
    merged = [f"{start[0] + 1}" for start, _ in sheet.merged_cell_ranges or ()]
    if merged:
        rows = f"row{'s' if len(merged) > 1 else ''} {', '.join(merged[:5])}"
        notes.append(
            f"cells are merged ({rows}{' …' if len(merged) > 5 else ''}); their text is that of "
            "the first of them alone"
        )
    return notes


@contextmanager
def _one_sentence(path: str, file: BinaryIO) -> Iterator[None]:
    """Turn the errors of calamine into DataError."""
    start = file.read(4)
    file.seek(0)
    try:
        yield
    except (DataError, OSError, MemoryError, GeneratorExit):
        raise
    except BaseException as problem:  # a panic of Rust is no Exception
        if isinstance(problem, KeyboardInterrupt):
            raise
        if "Password" in type(problem).__name__ or (
            start == _OLE and not path.lower().endswith(".xls")
        ):
            reason = "protected by a password; save it without one, or"
        else:
            reason = (
                f"damaged, or no spreadsheet ({f'{problem}'[:80]}); fetch it again, or"
            )
        raise DataError(f"{path}: {reason} {_REMEDY}") from None


def _check_parts(path: str, file: BinaryIO) -> dict[str, bytes]:
    """Return the XML of each sheet of XLSX by its name. Raises DataError for a file that is too
    large when it is unpacked.
    """
    parts: dict[str, bytes] = {}
    if zipfile.is_zipfile(file):
        archive = zipfile.ZipFile(file)
        size = sum(part.file_size for part in archive.infolist())
        if size > MAX_BYTES:
            raise DataError(
                f"{path}: has {size >> 20:,} MB when it is unpacked, and at most "
                f"{MAX_BYTES >> 20} MB are read; {_REMEDY}"
            )
        if "xl/workbook.xml" in archive.namelist():
            parts = _sheet_parts(archive)
    file.seek(0)
    return parts


def _sheet_parts(archive: zipfile.ZipFile) -> dict[str, bytes]:
    from xml.etree import ElementTree

    def elements(name: str, tag: str) -> Iterator[dict[str, str]]:
        for element in ElementTree.fromstring(archive.read(name)).iter():
            if element.tag.endswith(f"}}{tag}"):
                yield {key.rpartition("}")[2]: value for key, value in element.items()}

    relations = elements("xl/_rels/workbook.xml.rels", "Relationship")
    targets = {relation["Id"]: relation["Target"] for relation in relations}
    paths = {}
    for sheet in elements("xl/workbook.xml", "sheet"):
        target = targets[sheet["id"]]
        paths[sheet["name"]] = target[1:] if target.startswith("/") else f"xl/{target}"
    return {
        name: archive.read(path)
        for name, path in paths.items()
        if path.endswith(".xml")
    }


def _check_cells(name: str, part: bytes) -> None:
    """Raise DataError for a sheet of XLSX with a cell far from the others, since memory is taken
    for all cells before it.
    """
    column = b""
    row = 0
    for match in _CELL.finditer(part):
        column = max(column, match[1], key=lambda letters: (len(letters), letters))
        row = max(row, int(match[2]))
    width = 0
    for letter in column:
        width = width * 26 + letter - 64
    if row * width > MAX_CELLS:
        raise DataError(
            f"{name}: has cells up to column {column.decode()} and row {row:,}, more than "
            f"{MAX_CELLS:,} in all; delete what is far from the table, or {_REMEDY}"
        )


def _is_row(row: Sequence[str]) -> bool:
    return sum(map(bool, row)) > 1


def _texts(row: Sequence[Any]) -> list[str]:
    """Return cells as texts: whole numbers without a point, dates as in ISO 8601."""
    return [
        f"{int(cell)}" if isinstance(cell, float) and cell.is_integer() else f"{cell}"
        for cell in row
    ]
