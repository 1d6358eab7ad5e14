"""Read a column of a table as lines: delimited text, a spreadsheet or a translation file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.common.errors import DataError
from regard.data.caption_formats import SHOWN
from regard.data.file_formats import is_table, open_table
from regard.data.table_columns import describe_columns, find_column, has_header
from regard.data.text import CUT, READ_LINE, too_long
from regard.pipeline.bulk.lines import Lines, Numbering


class ColumnLines(Lines):
    """The texts of one column, in the order of rows, below the names of the columns.

    An empty cell becomes an empty line, and line breaks in a cell become spaces. Rows have the
    numbers that programs for tables show.
    """

    def __init__(self, file: str, column: str, max_line: int) -> None:
        super().__init__(file, max_line)
        self.column = column
        self.numbering = Numbering("row")

    @staticmethod
    def reads(file: str) -> bool:
        """Return whether a table is read here: neither a folder, an address nor a binary file."""
        return is_table(file) and "://" not in file and not Path(file).is_dir()

    def _read(self) -> Iterator[str]:
        reader, table = open_table(self.file, max(self.max_line, READ_LINE))
        column = find_column(table.rows, self.column) if table.rows else None
        DataError.raise_all(reader.causes)
        if column is None:
            raise DataError(
                f"{self.name}: has no column {self.column!r}; there are "
                f"{describe_columns(table.rows)}"
            )
        is_headed = has_header(table, self.column)
        where = f"{self.name}, column {self.column}"
        causes = list[str]()
        line = 0
        end = table.skipped
        for index, (record, count) in enumerate(table.records):
            number = end + 1
            end += count
            if (is_headed and index == 0) or not record:
                continue
            if len(causes) == SHOWN:
                break
            if isinstance(record, str):
                causes.append(f"{where}: row {number}: cells {record}")
                continue
            text = record[column] or ""
            if text == CUT or len(text) > self.max_line:
                causes.append(f"{where}: row {number} {too_long(self.max_line)}")
            elif not causes:
                line += 1
                self.numbering.add(line, number)
                yield " ".join(text.splitlines()) if "\n" in text else text
        DataError.raise_all([*reader.causes, *causes])
