"""Shards: the token ids of a corpus in memory-mapped .npy files, so that only the pages in use take
memory.

All shards but the last have equally many pairs. A shard has two arrays for each side:
`00000.source_tokens.npy` holds all tokens one after another, each sentence with its EOS, and
`00000.source_offsets.npy` the positions at which the sentences begin and the last one ends.
`index.json` holds the number of pairs, the checksums of the files, and a key of their origin.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from regard.common.atomic import atomic_folder, write_text
from regard.common.errors import DataError
from regard.common.reading import file_bytes, parse_json
from regard.data.batch import Example, IntArray
from regard.data.pairs import Pair, chunks
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import EOS, Vocabulary

ROWS = 1 << 18  # pairs in a shard
FORMAT = "Regard shards"
VERSION = 1
INDEX = "index.json"
REMEDY = (
    "; remove the folder, and train with `resume=True`: it is made anew from the text"
)

_SIDES = ("source", "target")
_FILE_NAME = re.compile(r"[0-9]{5,9}\.(source|target)_(offsets|tokens)\.npy")
_CHUNK = 1 << 20  # bytes that are read at once for a checksum

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Side:
    """One side of a shard."""

    offsets: IntArray  # positions in `tokens` where each sentence begins and the last one ends
    tokens: Array

    def row(self, number: int) -> list[int]:
        start, end = self.offsets[number : number + 2]
        ids: list[int] = self.tokens[start:end].tolist()
        return ids


class Shards(Sequence[Example]):
    """Sequence of the examples in a folder of shards, which are read on demand."""

    def __init__(self, folder: Path, index: Mapping[str, Any]) -> None:
        """Use `Shards.open`."""
        self.folder = folder
        self.cache_key = index["cache_key"]
        self.longest_source = int(index["longest_source"])  # tokens, EOS included
        self._pairs = int(index["pairs"])
        self._rows = int(index["rows"])
        count = -(-self._pairs // self._rows)
        self._shards = [
            tuple(_map_side(folder, number, side) for side in _SIDES)
            for number in range(count)
        ]

    @classmethod
    def open(cls, folder: Path) -> Shards:
        """Verify the checksums of a folder of shards and map its arrays into memory.

        Raises DataError if the folder is damaged.
        """
        try:
            index = parse_json(file_bytes(folder / INDEX))
            if (index["format"], index["version"]) != (FORMAT, VERSION):
                raise ValueError(f"not shards of version {VERSION}")
            for entry in index["files"]:
                # Other names could lead out of the folder.
                if not _FILE_NAME.fullmatch(entry["name"]):
                    raise ValueError(
                        f"its index names {entry['name']!r}, which is no file of shards"
                    )
                _check(folder / entry["name"], entry)
            return cls(folder, index)
        except (OSError, ValueError, KeyError, TypeError, ArithmeticError) as problem:
            raise DataError(f"{folder}: damaged ({problem}){REMEDY}") from None

    def __len__(self) -> int:
        return self._pairs

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._pairs))]
        shard, row = divmod(range(self._pairs)[index], self._rows)
        source, target = self._shards[shard]
        return Example(source.row(row), target.row(row))

    def lengths(self, indices: Sequence[int]) -> tuple[IntArray, IntArray]:
        """Return the lengths of both sides of these pairs, EOS included, without reading tokens."""
        shards, rows = np.divmod(np.asarray(indices, dtype=np.int64), self._rows)
        lengths = np.empty((2, len(rows)), dtype=np.int64)
        for shard in np.unique(shards):
            is_in_shard = shards == shard
            shard_rows = rows[is_in_shard]
            for side, sizes in zip(self._shards[shard], lengths, strict=True):
                sizes[is_in_shard] = (
                    side.offsets[shard_rows + 1] - side.offsets[shard_rows]
                )
        return lengths[0], lengths[1]


def write_shards(
    folder: Path,
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    cache_key: Mapping[str, Any] | None = None,
    rows: int = ROWS,
) -> Shards:
    """Tokenise pairs and write them as shards of `rows` pairs.

    The folder is replaced once all files are written. `cache_key` is a JSON object that describes
    the origin of the shards; it is stored, so that it can decide whether they are reused.
    """
    largest_id = max(len(tokenizer.source), len(tokenizer.target)) - 1
    dtype = np.min_scalar_type(largest_id).newbyteorder("<")
    try:
        with atomic_folder(folder) as temporary:
            files = list[dict[str, Any]]()
            total = 0
            longest = 0
            for number, shard in enumerate(_tokenise(pairs, tokenizer, rows, dtype)):
                for name, side in zip(_SIDES, shard, strict=True):
                    prefix = f"{number:05}.{name}"
                    offsets = side.offsets.astype("<i8")
                    files.append(_save(temporary / f"{prefix}_offsets.npy", offsets))
                    files.append(_save(temporary / f"{prefix}_tokens.npy", side.tokens))
                source_lengths = np.diff(shard[0].offsets)
                total += len(source_lengths)
                longest = max(longest, int(source_lengths.max()))

            if not files:
                raise DataError(
                    f"{folder}: there is no sentence pair to write; give at least one"
                )
            index = {
                "format": FORMAT,
                "version": VERSION,
                "pairs": total,
                "rows": rows,
                "longest_source": longest,
                "cache_key": dict(cache_key or {}),
                "files": files,
            }
            write_text(temporary / INDEX, json.dumps(index, indent=1))
    except OSError as problem:
        raise DataError(
            f"{folder}: cannot be written ({problem.strerror or problem}); make room, or choose "
            "another `out=`"
        ) from None
    return Shards.open(folder)


def _tokenise(
    pairs: Iterable[Pair], tokenizer: Tokenizer, rows: int, dtype: np.dtype[Any]
) -> Iterator[tuple[_Side, _Side]]:
    """Yield both sides of each shard."""
    remaining = iter(pairs)
    while True:
        sources = []
        targets = []
        for chunk in chunks(islice(remaining, rows)):
            source_texts = [pair.source for pair in chunk]
            target_texts = [pair.target for pair in chunk]
            sources.append(_encode(tokenizer.source, source_texts, dtype))
            targets.append(_encode(tokenizer.target, target_texts, dtype))
        if not sources:
            return
        yield _concatenate(sources), _concatenate(targets)


def _encode(
    vocabulary: Vocabulary, texts: Sequence[str], dtype: np.dtype[Any]
) -> _Side:
    ids = [[*row, EOS] for row in vocabulary.encode_all(texts)]
    offsets = np.cumsum(np.array([0, *map(len, ids)], dtype=np.int64))
    tokens = np.fromiter(chain.from_iterable(ids), dtype, int(offsets[-1]))
    return _Side(offsets, tokens)


def _concatenate(parts: Sequence[_Side]) -> _Side:
    start = 0
    offsets = [np.zeros(1, dtype=np.int64)]
    for part in parts:
        offsets.append(part.offsets[1:] + start)
        start += len(part.tokens)
    tokens = [part.tokens for part in parts]
    return _Side(np.concatenate(offsets), np.concatenate(tokens))


def _save(path: Path, array: Array) -> dict[str, Any]:
    """Write an array and return its entry in the index."""
    np.save(path, array, allow_pickle=False)
    return {"name": path.name, "bytes": path.stat().st_size, "crc32": _crc32(path)}


def _check(path: Path, entry: Mapping[str, Any]) -> None:
    """Raise ValueError if a file differs from its entry in the index."""
    size = path.stat().st_size
    if size != entry["bytes"]:
        raise ValueError(
            f"{path.name} holds {size:,} bytes where {entry['bytes']:,} were written"
        )
    if _crc32(path) != entry["crc32"]:
        raise ValueError(f"{path.name} is not what was written")


def _crc32(path: Path) -> int:
    code = 0
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            code = zlib.crc32(data, code)
    return code


def _map_side(folder: Path, number: int, side: str) -> _Side:
    prefix = f"{number:05}.{side}"
    offsets = np.lib.format.open_memmap(folder / f"{prefix}_offsets.npy", mode="r")
    tokens = np.lib.format.open_memmap(folder / f"{prefix}_tokens.npy", mode="r")
    return _Side(offsets.view(np.ndarray), tokens.view(np.ndarray))
