"""Spreadsheets: the rows of a sheet of XLSX, XLS or ODS, read by calamine."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
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
        formulas = _check_archive(path, file, wanted)
        file.seek(0)
        return _choose_sheet(load_workbook(file), formulas, path, wanted)
    except (DataError, OSError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as problem:  # a panic of Rust is no Exception
        reason = f"damaged, or no spreadsheet ({f'{problem}'[:80]}); fetch it again, or"
        is_locked = start == _OLE and not path.lower().endswith(".xls")
        if is_locked or "Password" in type(problem).__name__:
            reason = "protected by a password; save it without one, or"
        raise DataError(f"{path}: {reason} {_REMEDY}") from None


def _choose_sheet(
    book: Any, formulas: Mapping[str, Sequence[str]], path: str, wanted: str
) -> tuple[Iterator[list[str]], list[str]]:
    names = [name for name in book.sheet_names if wanted in ("", name)]
    all_names = ", ".join(book.sheet_names)
    if not names:
        raise DataError(f"{path}: has no sheet {wanted!r}; there are {all_names}")
    heads = {}
    for name in names:
        rows = map(_texts, islice(book.get_sheet_by_name(name).iter_rows(), HEAD))
        heads[name] = [*filter(_is_row, rows)]
    named = (name for name, head in heads.items() if head and holds_names(head))
    filled = (name for name, head in heads.items() if head)
    name = next(named, next(filled, names[0]))
    sheet = book.get_sheet_by_name(name)
    notes = []
    if len(book.sheet_names) > 1:
        others = ", ".join(other for other in book.sheet_names if other != name)
        notes.append(
            f"the sheet {name} was read; there is also {others} (FILE#NAME reads another)"
        )
    if cells := formulas.get(name):
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


def _sheet_parts(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return the path of the XML of each sheet of XLSX by its name."""

    def elements(part: str, tag: str) -> Iterator[dict[str, str]]:
        for element in ElementTree.fromstring(archive.read(part)).iter():
            if element.tag.endswith(f"}}{tag}"):
                yield {key.rpartition("}")[2]: value for key, value in element.items()}

    relations = elements("xl/_rels/workbook.xml.rels", "Relationship")
    targets = {relation["Id"]: relation["Target"] for relation in relations}
    # An absolute target replaces the folder.
    return {
        sheet["name"]: posixpath.join("/xl", targets[sheet["id"]])[1:]
        for sheet in elements("xl/workbook.xml", "sheet")
    }


def _check_archive(path: str, file: BinaryIO, wanted: str) -> dict[str, list[str]]:
    """Return, for each sheet of XLSX or the wanted one, its cells with formulas without a value.

    Raises DataError for a file that is too large when it is unpacked, or has a cell far from the
    others, since calamine takes memory for all cells before it.
    """
    if not zipfile.is_zipfile(file):
        return {}
    archive = zipfile.ZipFile(file)
    names = archive.namelist()
    size = sum(part.file_size for part in archive.infolist())
    if size > MAX_BYTES:
        raise DataError(
            f"{path}: has {size >> 20:,} MB when it is unpacked, and at most "
            f"{MAX_BYTES >> 20} MB are read; {_REMEDY}"
        )
    if "content.xml" in names:
        _check_ods(path, archive.read("content.xml"))
    formulas = {}
    if "xl/workbook.xml" in names:
        for name, part in _sheet_parts(archive).items():
            if part.endswith(".xml") and wanted in ("", name):
                xml = archive.read(part)
                _check_xlsx(f"{path}#{name}", xml)
                formulas[name] = [cell.decode() for cell in _FORMULA.findall(xml)]
    return formulas


def _check_xlsx(name: str, part: bytes) -> None:
    column = b""
    row = 0
    for match in _CELL.finditer(part):
        column = max(column, match[1], key=lambda letters: (len(letters), letters))
        row = max(row, int(match[2]))
    width = reduce(lambda width, letter: width * 26 + letter - 64, column, 0)
    _check_size(name, row, width, column.decode())


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
