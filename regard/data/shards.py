"""Shards: the pairs of a corpus as pieces in files, read through memory maps, so that memory holds what is in use.

A folder holds `00000.shard`, `00001.shard` … of equally many pairs each (the last one of fewer) and `index.json`, which
says what they were made of. A shard is, little-endian: 64 bytes of header (magic, version, bytes of a piece, pairs,
pieces of either side), where each source begins among all sources and where the last one ends (8 bytes each), the same
for targets, the sources' pieces, the targets' pieces, ends of sentence included.
"""

from __future__ import annotations

import json
import mmap
import shutil
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from regard.atomic import write_bytes
from regard.data.batch import Example, StoredExamples
from regard.data.pairs import Pair, chunks
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import EOS, Vocabulary
from regard.errors import DataError

__all__ = ["REMEDY", "ROWS", "Shards", "write_shards"]

ROWS = 1 << 18  # pairs in a shard
INDEX = "index.json"
VERSION = 1
REMEDY = "; remove the folder, and train with --resume: it is made anew from the text"

_MAGIC = b"RegardSh"
_HEADER = struct.Struct("<8sIIQQQ24x")
_PLACES = np.dtype("<i8")
_READ = 1 << 20  # bytes

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Side:
    """One side of a shard: its pieces, and where each sentence begins (and the last one ends)."""

    places: Numbers
    pieces: Array

    def row(self, number: int) -> list[int]:
        ids: list[int] = self.pieces[self.places[number] : self.places[number + 1]].tolist()
        return ids


class Shards(StoredExamples):
    """The pairs of a folder of shards, as examples. Only what is asked for is read."""

    def __init__(self, folder: Path, index: Mapping[str, Any]) -> None:
        """Use `Shards.open`."""
        self.folder, self.made_of = folder, index["made_of"]
        self.longest = int(index["longest_source"])  # pieces, the end of sentence included
        self._pairs, self._rows = int(index["pairs"]), int(index["rows"])
        self._sides = [_sides(folder / shard["name"]) for shard in index["shards"]]

    @classmethod
    def open(cls, folder: Path) -> Shards:
        """Check a folder of shards to the last byte and map it into memory. Raises DataError where it is damaged."""
        try:
            index = json.loads((folder / INDEX).read_bytes())
            if (index["format"], index["version"]) != ("Regard shards", VERSION):
                raise ValueError(f"not shards of version {VERSION}")
            for shard in index["shards"]:
                _check(folder / shard["name"], shard)
            return cls(folder, index)
        except (OSError, ValueError, KeyError, TypeError, struct.error) as problem:
            raise DataError(f"{folder}: damaged ({problem}){REMEDY}") from None

    def __len__(self) -> int:
        return self._pairs

    @overload
    def __getitem__(self, line: int) -> Example: ...
    @overload
    def __getitem__(self, line: slice) -> list[Example]: ...
    def __getitem__(self, line: int | slice) -> Example | list[Example]:
        if isinstance(line, slice):
            return [self[number] for number in range(*line.indices(self._pairs))]
        shard, row = divmod(range(self._pairs)[line], self._rows)
        source, target = self._sides[shard]
        return Example(source.row(row), target.row(row))

    def lengths(self, lines: Sequence[int]) -> tuple[Numbers, Numbers]:
        """The lengths of both sides of these pairs, ends included, without reading a piece."""
        wanted = np.asarray(lines, dtype=np.int64)
        found = np.empty((2, len(wanted)), dtype=np.int64)
        shards, rows = np.divmod(wanted, self._rows)
        for shard in np.unique(shards):
            here = shards == shard
            for side, sizes in zip(self._sides[shard], found, strict=True):
                sizes[here] = side.places[rows[here] + 1] - side.places[rows[here]]
        return found[0], found[1]


def write_shards(
    folder: Path,
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    made_of: Mapping[str, Any] | None = None,
    rows: int = ROWS,
) -> Shards:
    """Cut pairs into pieces and write them as shards; what was in the folder is gone then.

    The folder gets its name when all is written: a reader never meets half of it. `made_of` is anything that JSON
    holds; it is kept, to see later whether the shards still are those that are wanted.
    """
    beside = folder.with_name(folder.name + ".partial")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        kind = np.min_scalar_type(max(len(tokenizer.source), len(tokenizer.target)) - 1).newbyteorder("<")
        shards, total, longest = [], 0, 0
        for number, some in enumerate(_cut(pairs, tokenizer, rows, kind)):
            shards.append(_written(beside / f"{number:05}.shard", some))
            total, longest = total + len(some[0].places) - 1, max(longest, int(np.diff(some[0].places).max()))
        if not shards:
            raise DataError(f"{folder}: there is no sentence pair to write; give at least one")
        index = {"format": "Regard shards", "version": VERSION, "pairs": total, "rows": rows, "shards": shards}
        index |= {"piece": kind.name, "longest_source": longest, "made_of": dict(made_of or {})}
        write_bytes(beside / INDEX, json.dumps(index, indent=1).encode())
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    except OSError as problem:
        shutil.rmtree(beside, ignore_errors=True)
        raise DataError(
            f"{folder}: cannot be written ({problem.strerror}); make room, or choose another --out"
        ) from None
    return Shards.open(folder)


def _cut(pairs: Iterable[Pair], tokenizer: Tokenizer, rows: int, kind: np.dtype[Any]) -> Iterator[tuple[_Side, _Side]]:
    """Both sides of one shard after another."""
    rest = iter(pairs)
    vocabularies = (tokenizer.source, tokenizer.target)
    while some := [
        [_pieces(*side, kind) for side in zip(vocabularies, zip(*map(_texts, part), strict=True), strict=True)]
        for part in chunks(islice(rest, rows))
    ]:
        source, target = (_joined(parts) for parts in zip(*some, strict=True))
        yield source, target


def _texts(pair: Pair) -> tuple[str, str]:
    return pair.source, pair.target


def _pieces(vocabulary: Vocabulary, texts: Sequence[str], kind: np.dtype[Any]) -> _Side:
    ids = [[*row, EOS] for row in vocabulary.encode_all(texts)]
    lengths = np.array([0, *map(len, ids)], dtype=np.int64)
    return _Side(np.cumsum(lengths), np.fromiter(chain.from_iterable(ids), kind, int(lengths.sum())))


def _joined(parts: Sequence[_Side]) -> _Side:
    starts = np.cumsum([0, *(len(part.pieces) for part in parts)])
    places = [part.places[1:] + start for part, start in zip(parts, starts, strict=False)]
    return _Side(np.concatenate([starts[:1], *places]), np.concatenate([part.pieces for part in parts]))


def _written(path: Path, sides: tuple[_Side, _Side]) -> dict[str, Any]:
    """Write one shard; what the index says of it."""
    source, target = sides
    pairs, width = len(source.places) - 1, source.pieces.dtype.itemsize
    parts = [_HEADER.pack(_MAGIC, VERSION, width, pairs, len(source.pieces), len(target.pieces))]
    parts += [side.places.astype(_PLACES).tobytes() for side in sides] + [side.pieces.tobytes() for side in sides]
    code = 0
    with path.open("wb") as file:
        for part in parts:
            code = zlib.crc32(part, code)
            file.write(part)
    return {"name": path.name, "bytes": sum(map(len, parts)), "crc32": code}


def _check(path: Path, shard: Mapping[str, Any]) -> None:
    """Raise ValueError where a shard is not what was written."""
    size, code = path.stat().st_size, 0
    if size != shard["bytes"]:
        raise ValueError(f"{path.name} holds {size:,} bytes where {shard['bytes']:,} were written")
    with path.open("rb") as file:
        while part := file.read(_READ):
            code = zlib.crc32(part, code)
    if code != shard["crc32"]:
        raise ValueError(f"{path.name} is not what was written")


def _sides(path: Path) -> tuple[_Side, _Side]:
    with path.open("rb") as file:
        magic, version, width, pairs, *pieces = _HEADER.unpack(file.read(_HEADER.size))
        if (magic, version) != (_MAGIC, VERSION):
            raise ValueError(f"{path.name} is no shard of version {VERSION}")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    places = _HEADER.size
    ids = places + 2 * (pairs + 1) * _PLACES.itemsize
    source, target = (
        _Side(
            np.frombuffer(data, _PLACES, pairs + 1, places + side * (pairs + 1) * _PLACES.itemsize),
            np.frombuffer(data, f"<u{width}", pieces[side], ids + side * pieces[0] * width),
        )
        for side in (0, 1)
    )
    return source, target
