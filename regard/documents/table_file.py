"""CSV and TSV: the whole table comes back, with one column translated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from regard.common.errors import DataError
from regard.data.delimited import infer_dialect, read_delimited
from regard.data.sentences import has_letters
from regard.data.table_columns import (
    HEAD,
    Table,
    describe_columns,
    find_column,
    has_header,
)
from regard.documents.document import (
    Document,
    DocumentOptions,
    DocumentText,
    EditedText,
    Slot,
    value_slot,
)
from regard.documents.encoding import decode_file

_LISTED = 5
"""Maximum number of rows that an error lists."""


class _Cell(NamedTuple):
    """A cell between two offsets of the file."""

    start: int
    end: int
    text: str
    is_quoted: bool


def read_table(data: bytes, name: str, options: DocumentOptions) -> Document:
    """Read the cells of `options.column`, found by its name, language or number.

    Raises DataError for a table without that column, and for rows that are not like the others.
    """
    source = decode_file(data, name)
    lines = re.split("\r\n|\n|\r", source.text)
    delimiters = ";,\t" if re.search(r"(?i)\.csv(\.gz)?\Z", name) else "\t"
    table = read_delimited(lines, delimiters, may_be_single=True)
    # The only column needs no name.
    is_single = bool(table.rows) and len(table.rows[0]) == 1
    wanted = options.column or "1" * is_single
    column = _column(table, name, wanted)
    if table.skipped and lines[0].strip('"').startswith("sep="):
        delimiters = lines[0].strip('"')[4]
    head = lines[table.skipped : table.skipped + HEAD]
    dialect, _ = infer_dialect(head, delimiters, may_be_single=True)
    is_quoted = dialect.quoted is not False
    # Other programs would divide a single column at any delimiter.
    apart = delimiters if dialect.width == 1 else dialect.delimiter
    records = [*_records(source.text, dialect.delimiter, is_quoted)]

    slots = list[Slot]()
    wrong = list[str]()
    first = table.skipped + has_header(table, wanted)
    for number, cells in enumerate(records[first:], first + 1):
        if len(cells) == 1 and not cells[0].text.strip():
            continue
        if len(cells) <= column or (len(cells) != dialect.width and not dialect.ragged):
            wrong.append(
                f"{name}: row {number} has {len(cells)} cells instead of {dialect.width}; correct "
                "the table"
            )
            continue
        cell = cells[column]
        if has_letters(cell.text):
            escape = _escape(cell, apart, is_quoted)
            text = DocumentText(cell.text, f"row {number}")
            slots.append(value_slot(cell.start, cell.end, text, escape, True))
    DataError.raise_all(wrong[:_LISTED])
    return EditedText(source, slots)


def _column(table: Table, name: str, wanted: str) -> int:
    """Return the index of a column. Raises DataError if there is none."""
    column = find_column(table.rows, wanted) if wanted and table.rows else None
    if column is not None:
        return column
    columns = describe_columns(table.rows) if table.rows else "no rows"
    if not wanted:
        raise DataError(
            f"{name}: is a table; give the column to translate, by its number or name, such as "
            f"`column=1`; there are "
            f"{columns}"
        )
    raise DataError(f"{name}: has no column {wanted!r}; there are {columns}")


def _records(text: str, delimiter: str, is_quoted: bool) -> Iterator[list[_Cell]]:
    """Yield the cells of each record."""
    quoted = r'"(?P<quoted>[^"]*(?:""[^"]*)*)"' if is_quoted else "(?P<quoted>(?!))"
    end = rf"(?P<end>{re.escape(delimiter)}|\r\n|\n|\r|\Z)"
    pattern = re.compile(
        rf"(?:{quoted}|(?P<plain>[^{re.escape(delimiter)}\r\n]*)){end}"
    )
    cells = list[_Cell]()
    position = 0
    while position < len(text) or cells:
        match = pattern.match(text, position)
        assert match is not None, "a plain cell may be empty"
        inner = match["quoted"]
        cell_text = match["plain"] if inner is None else inner.replace('""', '"')
        cells.append(
            _Cell(match.start(), match.start("end"), cell_text, inner is not None)
        )
        position = match.end()
        if match["end"] != delimiter:
            yield cells
            cells = []


def _escape(cell: _Cell, delimiters: str, is_quoted: bool) -> Callable[[str], str]:
    """Return the function that writes a text into a cell: quoted as it was, or if it has to be."""

    def escape(text: str) -> str:
        if not is_quoted:
            return re.sub(rf"[\r\n{re.escape(delimiters)}]+", " ", text)
        if cell.is_quoted or re.search(rf'["\r\n{re.escape(delimiters)}]', text):
            return '"' + text.replace('"', '""') + '"'
        return text

    return escape
