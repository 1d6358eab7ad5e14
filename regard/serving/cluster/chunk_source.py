"""The chunks of a file as a source of Ray Data: they are read where the file is, a few ahead of the translation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from regard.common.errors import RegardError
from regard.pipeline.bulk import Chunk, Lines, chunks
from regard.serving.cluster.chunk_values import COLUMN, to_text


class ChunkSource(Datasource):  # type: ignore[misc,unused-ignore]  # without Ray its classes have no types
    """Reads the chunks from number `first` on with one task, in order, one row each.

    An error in reading is a row too, the last one: what was read before it is translated and kept. A task that is lost
    begins again, and yields the same rows.
    """

    def __init__(self, lines: Lines, size: int, first: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self._lines, self._size, self._first = lines, size, first

    def estimate_inmemory_data_size(self) -> int | None:
        """Return None: the size is not known before all is read."""
        return None

    def get_read_tasks(self, *_: Any, **__: Any) -> list[Any]:
        """Return the one task that reads, however many Ray would like."""
        metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(self._blocks, metadata)]

    def _blocks(self) -> Iterator[Any]:
        import pyarrow as pa

        for chunk in _until_error(islice(chunks(self._lines, self._size), self._first, None)):
            yield pa.table({COLUMN: [to_text(chunk)]})


def _until_error(stream: Iterator[Chunk]) -> Iterator[Chunk | RegardError]:
    try:
        yield from stream
    except RegardError as problem:
        yield problem
