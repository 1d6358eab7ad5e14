"""A column of tables as lines: Parquet, Arrow, CSV and JSON lines, one file or a folder of them, here or in a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from regard.bulk import Lines
from regard.data.text import is_too_long, too_long
from regard.errors import DataError, MissingExtra

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".feather": "feather",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
}
"""Formats of tables by the endings of file names."""
_ROWS = 8192


class TableLines(Lines):
    """The texts of one column, in the order of rows; files in a folder in the order of their names.

    An empty cell is an empty line, and line breaks in a cell are spaces. `file` may be an address such as
    s3://bucket/folder, for what pyarrow can open.
    """

    def __init__(self, file: str, column: str, max_line: int) -> None:
        super().__init__(file, max_line)
        self.column, self.typed = column, False

    def _read(self) -> Iterator[str]:
        number = 0
        for fragment in self._fragments():
            try:
                options: dict[str, Any] = {"columns": [self.column], "batch_size": _ROWS}
                if _is_json(fragment):  # else pyarrow guesses by the first rows
                    options["schema"] = _texts(self.column)
                for batch in fragment.to_batches(**options):
                    for text in batch.column(0).to_pylist():
                        number += 1
                        yield self._line(text or "", number)
            except _arrow_errors() as problem:
                raise DataError(f"{fragment.path}: damaged, or no such table ({_first_line(problem)})") from None

    def _line(self, text: str, number: int) -> str:
        if "\0" in text:
            raise DataError(f"{self.name}, column {self.column}: row {number} holds a NUL character; remove it")
        line = " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
        if is_too_long(line.encode(), self.max_line):
            raise DataError(f"{self.name}, column {self.column}: row {number} {too_long(self.max_line)}")
        return line

    def _fragments(self) -> list[Any]:
        """Return the files, sorted by name. Raises DataError, with all causes, if one has no such column of texts."""
        try:
            import pyarrow as pa
            from pyarrow import dataset
        except ModuleNotFoundError:
            raise MissingExtra("pyarrow", "scale", "`column=`") from None
        try:
            fragments = sorted(self._dataset(dataset).get_fragments(), key=lambda fragment: str(fragment.path))
            schemas = [fragment.physical_schema for fragment in fragments]
        except _arrow_errors() as problem:
            raise DataError(f"{self.name}: cannot be read as a table ({_first_line(problem)})") from None
        causes = []
        for fragment, schema in zip(fragments, schemas, strict=True):
            if self.column not in schema.names:
                causes.append(f"{fragment.path}: has no column {self.column!r}; there are {', '.join(schema.names)}")
            elif not _is_text(pa, kind := schema.field(self.column).type, _is_json(fragment)):
                causes.append(f"{fragment.path}: column {self.column!r} holds {kind}, wanted texts")
        if causes or not fragments:
            raise DataError(*causes or [f"{self.name}: has no tables; wanted {', '.join(FORMATS)}"])
        return fragments

    def _dataset(self, dataset: Any) -> Any:
        """Return what reads the file, or the files of the folder, which all have one format."""
        endings = {PurePosixPath(self.file).suffix.lower()}
        if Path(self.file).is_dir():
            endings = {path.suffix.lower() for path in Path(self.file).rglob("*") if path.is_file()}
        kinds = {FORMATS[ending] for ending in endings if ending in FORMATS}
        if len(kinds) > 1:
            raise DataError(
                f"{self.name}: has tables of several formats, {', '.join(sorted(kinds))}; give one at a time"
            )
        kind: Any = kinds.pop() if kinds else "parquet"
        kind = _csv_format(self.column) if kind == "csv" else kind
        return dataset.dataset(self.file, format=kind, exclude_invalid_files=False)


def _is_json(fragment: Any) -> bool:
    return bool(fragment.format.default_extname == "json")


def _csv_format(column: str) -> Any:
    """Return CSV whose cells may hold line breaks, and a column as texts: else pyarrow guesses by the first rows."""
    import pyarrow as pa
    from pyarrow import csv, dataset

    return dataset.CsvFileFormat(
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(column_types={column: pa.string()}),
    )


def _texts(column: str) -> Any:
    import pyarrow as pa

    return pa.schema([(column, pa.string())])


def _is_text(pa: Any, kind: Any, is_json: bool) -> bool:
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if is_json and types.is_timestamp(kind):  # JSON has none: these are texts that look like dates
        return True
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind)
    )


def _arrow_errors() -> tuple[type[Exception], ...]:
    import pyarrow as pa

    return OSError, pa.ArrowException, UnicodeDecodeError


def _first_line(problem: Exception) -> str:
    return str(problem).split("\n")[0][:200]
