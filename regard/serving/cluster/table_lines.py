"""Read a column of tables as lines: Parquet, Arrow, CSV or JSON lines, from one file or a folder,
on disk or in an object store.
"""

from __future__ import annotations

import re
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
"""pyarrow's names of table formats, by file extension."""
_BATCH_ROWS = 8192


class TableLines(Lines):
    """The texts of one column, in the order of rows; files of a folder are sorted by name.

    An empty cell becomes an empty line, and line breaks in a cell become spaces. `file` is a path,
    or an address that pyarrow can open, such as s3://bucket/folder.
    """

    def __init__(self, file: str, column: str, max_line: int) -> None:
        super().__init__(file, max_line)
        self.column = column

    def _read(self) -> Iterator[str]:
        number = 0
        fragments = self._fragments()
        import pyarrow as pa

        # Without a schema, pyarrow infers types from the first rows of CSV and JSON.
        schema = pa.schema([(self.column, pa.string())])
        for fragment in fragments:
            try:
                batches = fragment.to_batches(
                    schema=schema, columns=[self.column], batch_size=_BATCH_ROWS
                )
                for batch in batches:
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
        """Return the files as pyarrow fragments, sorted by name.

        Raises DataError, with all causes, if a file lacks the column, or if it holds no texts.
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
            other = re.search("Could not read schema from '([^']+)'", str(problem))
            if other:
                raise DataError(
                    f"{other[1]}: is no table, or a damaged one; wanted {', '.join(FORMATS)}"
                ) from None
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
                continue
            data_type = schema.field(self.column).type
            if not _is_text(pa, data_type, fragment.format.default_extname):
                causes.append(
                    f"{fragment.path}: column {self.column!r} holds {data_type}, wanted texts"
                )
        if not fragments:
            causes.append(f"{self.name}: has no tables; wanted {', '.join(FORMATS)}")
        DataError.raise_all(causes)
        return fragments

    def _dataset(self, dataset: Any) -> Any:
        """Return the pyarrow dataset of the file, or of a folder whose files have one format.

        `dataset`: the module `pyarrow.dataset`.
        """
        extensions = {PurePosixPath(self.file).suffix.lower()}
        if Path(self.file).is_dir():
            files = filter(Path.is_file, Path(self.file).rglob("*"))
            extensions = {file.suffix.lower() for file in files}
        names = {FORMATS[extension] for extension in extensions if extension in FORMATS}
        if len(names) > 1:
            raise DataError(
                f"{self.name}: has tables of several formats, {', '.join(sorted(names))}; give one "
                "at a time"
            )

        file_format: Any = names.pop() if names else "parquet"
        if file_format == "csv":
            from pyarrow import csv

            file_format = dataset.CsvFileFormat(
                parse_options=csv.ParseOptions(newlines_in_values=True)
            )
        return dataset.dataset(
            self.file, format=file_format, exclude_invalid_files=False
        )


def _is_text(pa: Any, data_type: Any, file_format: str) -> bool:
    """Return whether a column may hold texts.

    CSV has no types, and JSON no timestamps, so types that pyarrow infers there may be texts.
    """
    types = pa.types
    if types.is_dictionary(data_type):
        data_type = data_type.value_type
    is_text = (
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_string_view(data_type)
    )
    is_inferred = file_format == "csv" or (
        file_format == "json" and types.is_timestamp(data_type)
    )
    return bool(is_text or types.is_null(data_type) or is_inferred)


def _arrow_errors() -> tuple[type[Exception], ...]:
    import pyarrow as pa

    return OSError, pa.ArrowException, UnicodeDecodeError


def _first_line(problem: Exception) -> str:
    return str(problem).split("\n")[0][:200]
