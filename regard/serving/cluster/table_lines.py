"""A column of tables as lines: Parquet, Arrow, CSV and JSON lines, one file or a folder of them,
here or in a store.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from regard.common.errors import DataError
from regard.common.lazy import needs_extra
from regard.data.text import is_too_long, too_long
from regard.pipeline.bulk import Lines

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

    An empty cell is an empty line, and line breaks in a cell are spaces. `file` may be an address
    such as s3://bucket/folder, for what pyarrow can open.
    """

    def __init__(self, file: str, column: str, max_line: int) -> None:
        super().__init__(file, max_line)
        self.column = column

    def _read(self) -> Iterator[str]:
        number = 0
        fragments = self._fragments()
        import pyarrow as pa

        # Else CSV and JSON have the types of their first rows.
        texts = pa.schema([(self.column, pa.string())])
        for fragment in fragments:
            try:
                for batch in fragment.to_batches(
                    schema=texts, columns=[self.column], batch_size=_ROWS
                ):
                    for text in batch.column(0).to_pylist():
                        number += 1
                        yield self._line(text or "", number)
            except _arrow_errors() as problem:
                raise DataError(
                    f"{fragment.path}: damaged, or no such table ({_first_line(problem)})"
                ) from None

    def _line(self, text: str, number: int) -> str:
        if "\0" in text:
            raise DataError(
                f"{self.name}, column {self.column}: row {number} holds a NUL character; remove it"
            )
        line = " ".join(text.splitlines()) if "\n" in text or "\r" in text else text
        if is_too_long(line.encode(), self.max_line):
            raise DataError(
                f"{self.name}, column {self.column}: row {number} {too_long(self.max_line)}"
            )
        return line

    def _fragments(self) -> list[Any]:
        """Return the files, sorted by name. Raises DataError, with all causes, if one has no such
        column of texts.
        """
        with needs_extra("scale", "`column=`", ["pyarrow"]):
            import pyarrow as pa
            from pyarrow import dataset
        try:
            fragments = sorted(
                self._dataset(dataset).get_fragments(),
                key=lambda fragment: str(fragment.path),
            )
            schemas = [fragment.physical_schema for fragment in fragments]
        except _arrow_errors() as problem:
            raise DataError(
                f"{self.name}: cannot be read as a table ({_first_line(problem)})"
            ) from None
        causes = []
        for fragment, schema in zip(fragments, schemas, strict=True):
            if self.column not in schema.names:
                causes.append(
                    f"{fragment.path}: has no column {self.column!r}; there are "
                    f"{', '.join(schema.names)}"
                )
            elif not _is_text(
                pa,
                kind := schema.field(self.column).type,
                fragment.format.default_extname,
            ):
                causes.append(
                    f"{fragment.path}: column {self.column!r} holds {kind}, wanted texts"
                )
        if causes or not fragments:
            raise DataError(
                *causes or [f"{self.name}: has no tables; wanted {', '.join(FORMATS)}"]
            )
        return fragments

    def _dataset(self, dataset: Any) -> Any:
        """Return what reads the file, or the files of the folder, which all have one format."""
        endings = {PurePosixPath(self.file).suffix.lower()}
        if Path(self.file).is_dir():
            endings = {
                path.suffix.lower()
                for path in Path(self.file).rglob("*")
                if path.is_file()
            }
        kinds = {FORMATS[ending] for ending in endings if ending in FORMATS}
        if len(kinds) > 1:
            raise DataError(
                f"{self.name}: has tables of several formats, {', '.join(sorted(kinds))}; give one "
                "at a time"
            )
        kind: Any = kinds.pop() if kinds else "parquet"
        if kind == "csv":
            from pyarrow import csv

            kind = dataset.CsvFileFormat(
                parse_options=csv.ParseOptions(newlines_in_values=True)
            )
        return dataset.dataset(self.file, format=kind, exclude_invalid_files=False)


def _is_text(pa: Any, kind: Any, file_format: str) -> bool:
    """Return whether a column may hold texts. CSV has no types, and JSON no times: pyarrow guesses
    them.
    """
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    is_text = (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
    )
    guessed = file_format == "csv" or (
        file_format == "json" and types.is_timestamp(kind)
    )
    return bool(is_text or types.is_null(kind) or guessed)


def _arrow_errors() -> tuple[type[Exception], ...]:
    import pyarrow as pa

    return OSError, pa.ArrowException, UnicodeDecodeError


def _first_line(problem: Exception) -> str:
    return str(problem).split("\n")[0][:200]
