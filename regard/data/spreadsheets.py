"""Spreadsheets: the rows of a sheet of XLSX, XLS or ODS, read by calamine."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import chain, islice
from typing import Any, BinaryIO
from xml.etree import ElementTree

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
_SHOWN = 5
"""Number of cells or rows that a sentence names."""
_CELL = re.compile(rb'<c r="([A-Z]+)(\d+)"')
_FORMULA = re.compile(
    rb'<c r="(\w+)"[^>]*><f\b(?:[^>]*/>|[^>]*>[^<]*</f>)(?:<v ?/>|<v></v>)?</c>'
)
"""A cell of XLSX with a formula and no value."""
_ODS_TAG = re.compile(rb"<table:(table|table-row|table-cell)(?=[\s/>])([^>]*)>")
_REPEATED = re.compile(rb"""-repeated=["'](\d+)""")
_REMEDY = "save the sheet as CSV UTF-8"


def read_spreadsheet(reader: LineReader, sheet: str) -> Table:
    """Read the sheet of that name, or else the first that has pairs; its rows count as lines.

    Raises DataError for a file that cannot be read.
    """
    opened = next(reader.read(lambda file: iter([_open(file, reader, sheet)])), None)
    if opened is None:  # the reader knows why
        return Table([], iter(()))
    rows, note = opened
    head = [*islice(rows, _TITLES + HEAD)]
    skipped = next((n for n, row in enumerate(head[:_TITLES]) if _is_row(row)), 0)
    return Table(
        [row for row in head[skipped : skipped + HEAD] if any(row)],
        ((row, 1) for row in chain(head[skipped:], rows)),
        skipped=skipped,
        notes=lambda: note,
    )


def _open(
    file: BinaryIO, reader: LineReader, wanted: str
) -> tuple[Iterator[list[str]], list[str]]:
    """Return the rows of a sheet, and sentences on it; the errors of calamine become DataError."""
    path = f"{reader.path}"
    with needs_extra("tables", path, ["python_calamine"]):
        from python_calamine import load_workbook
    start = file.read(len(_OLE))
    file.seek(0)
    try:
        parts = _Parts(path, file)
        return _choose_sheet(load_workbook(file), parts, wanted)
    except (DataError, OSError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as problem:  # a panic of Rust is no Exception
        reason = f"damaged, or no spreadsheet ({f'{problem}'[:80]}); fetch it again, or"
        is_locked = start == _OLE and not path.lower().endswith(".xls")
        if is_locked or "Password" in type(problem).__name__:
            reason = "protected by a password; save it without one, or"
        raise DataError(f"{path}: {reason} {_REMEDY}") from None


def _choose_sheet(
    book: Any, parts: _Parts, wanted: str
) -> tuple[Iterator[list[str]], list[str]]:
    names = [name for name in book.sheet_names if wanted in ("", name)]
    all_names = ", ".join(book.sheet_names)
    if not names:
        raise DataError(f"{parts.path}: has no sheet {wanted!r}; there are {all_names}")
    heads = {}
    formulas = {}
    for name in names:
        formulas[name] = parts.check_sheet(name)
        rows = map(_texts, islice(book.get_sheet_by_name(name).iter_rows(), HEAD))
        heads[name] = [*filter(_is_row, rows)]
    named = (name for name, head in heads.items() if head and holds_names(head))
    filled = (name for name, head in heads.items() if head)
    name = next(named, next(filled, names[0]))
    sheet = book.get_sheet_by_name(name)
    notes = []
    if len(book.sheet_names) > 1:
        notes.append(f"sheet {name} of {all_names} was read (FILE#SHEET names another)")
    if cells := formulas[name]:
        have = counted(len(cells), "formula has", "formulas have")
        notes.append(
            f"warning: {have} no stored value ({_shown(cells)}); save the file in a spreadsheet "
            "program"
        )
    merged = [f"{start[0] + 1}" for start, _ in sheet.merged_cell_ranges or ()]
    if merged:
        notes.append(
            f"cells are merged (row{'s' if len(merged) > 1 else ''} {_shown(merged)}); their text "
            "is that of the first of them alone"
        )
    return map(_texts, sheet.iter_rows()), notes


class _Parts:
    """XML of a file, one sheet at a time, in which is seen what calamine does not tell.

    Raises DataError for a file that is too large when it is unpacked.
    """

    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path = path
        self._paths: dict[str, str] = {}  # of the sheets of XLSX
        if not zipfile.is_zipfile(file):
            return
        self._archive = archive = zipfile.ZipFile(file)
        size = sum(part.file_size for part in archive.infolist())
        if size > MAX_BYTES:
            raise DataError(
                f"{path}: has {size >> 20:,} MB when it is unpacked, and at most "
                f"{MAX_BYTES >> 20} MB are read; {_REMEDY}"
            )
        if "content.xml" in archive.namelist():
            _check_ods(path, archive.read("content.xml"))
        if "xl/workbook.xml" in archive.namelist():
            relations = self._elements("xl/_rels/workbook.xml.rels", "Relationship")
            targets = {relation["Id"]: relation["Target"] for relation in relations}
            for sheet in self._elements("xl/workbook.xml", "sheet"):
                target = targets[sheet["id"]]
                in_folder = target[1:] if target.startswith("/") else f"xl/{target}"
                self._paths[sheet["name"]] = in_folder
        file.seek(0)

    def _elements(self, part: str, tag: str) -> Iterator[dict[str, str]]:
        for element in ElementTree.fromstring(self._archive.read(part)).iter():
            if element.tag.endswith(f"}}{tag}"):
                yield {key.rpartition("}")[2]: value for key, value in element.items()}

    def check_sheet(self, name: str) -> list[str]:
        """Return the cells with formulas that have no value. Raises DataError for a cell far from
        the others, since memory is taken for all cells before it.
        """
        path = self._paths.get(name, "")
        if not path.endswith(".xml"):
            return []
        part = self._archive.read(path)
        column = b""
        row = 0
        for match in _CELL.finditer(part):
            column = max(column, match[1], key=lambda letters: (len(letters), letters))
            row = max(row, int(match[2]))
        width = reduce(lambda width, letter: width * 26 + letter - 64, column, 0)
        _check_size(f"{self.path}#{name}", row, width, column.decode())
        return [cell.decode() for cell in _FORMULA.findall(part)]


def _check_ods(path: str, part: bytes) -> None:
    """Raise DataError for the XML of ODS that repeats its cells too often."""
    row = 0
    column = 0
    for match in _ODS_TAG.finditer(part):
        tag, attributes = match.groups()
        repeated = _REPEATED.search(attributes)
        count = int(repeated[1]) if repeated else 1
        if tag == b"table":
            row = 0
        elif tag == b"table-row":
            row += count
            column = 0
        else:
            column += count
            if not attributes.endswith(b"/"):  # it is filled
                _check_size(path, row, column, f"{column:,}")


def _check_size(name: str, row: int, width: int, column: str) -> None:
    if row * width > MAX_CELLS:
        raise DataError(
            f"{name}: has cells up to column {column} and row {row:,}, more than "
            f"{MAX_CELLS:,} in all; delete what is far from the table, or {_REMEDY}"
        )


def _shown(items: Sequence[str]) -> str:
    return ", ".join(items[:_SHOWN]) + (" …" if len(items) > _SHOWN else "")


def _is_row(row: Sequence[str]) -> bool:
    return sum(map(bool, row)) > 1


def _texts(row: Sequence[Any]) -> list[str]:
    """Return cells as texts: whole numbers without a point, dates as in ISO 8601."""
    return [
        f"{int(cell)}" if isinstance(cell, float) and cell.is_integer() else f"{cell}"
        for cell in row
    ]
