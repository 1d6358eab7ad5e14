"""Sentence pairs out of files, one after another: read once, checked, and sieved, in memory for a few of them."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from regard.data.text import LineReader
from regard.errors import DataError, UsageError

__all__ = [
    "CHUNK",
    "CorpusReport",
    "Dropped",
    "Filters",
    "Pair",
    "PairFiles",
    "PairFilter",
    "PairReader",
    "SeenPairs",
    "chunks",
    "format_lines",
]

CHUNK = 1 << 14  # pairs that are sieved, cut into pieces and written at once; a multiple of eight
_EXAMPLES = 5  # excerpts per reason
_NUMBERS = 20  # line numbers in one sentence
_SHORT = 30  # characters of a longer side that may have any partner: "是" is "Yes, that is right."
_DENSE = 10  # characters that count as a word where spaces are rare

Row = tuple[str, str]
T = TypeVar("T")


@dataclass(frozen=True)
class Filters:
    """Which training pairs are left out; the fields are explained in CorpusSettings."""

    max_length: int = 200
    max_ratio: float = 9.0
    drop_duplicates: bool = False


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation, both clean, and the line they stood on (counted from 1)."""

    source: str
    target: str
    line: int


@dataclass(frozen=True)
class Dropped:
    """How many pairs were left out for one reason, and the first of them."""

    count: int
    lines: tuple[int, ...]  # numbers of the first
    examples: tuple[tuple[int, str], ...]  # fewer, each with an excerpt


@dataclass(frozen=True)
class CorpusReport:
    """What happened to the pairs of one corpus."""

    name: str  # "train", "valid" or "test"
    files: tuple[str, ...]
    read: int
    kept: int
    dropped: dict[str, Dropped] = field(default_factory=dict)  # by reason: empty, too long, odd length ratio, duplicate
    duplicates: int = 0  # kept pairs that were there before
    notes: tuple[str, ...] = ()  # byte-order marks and CRs that were taken off

    def lines(self) -> list[str]:
        """The report as a person reads it."""
        lines = [f"{self.name}: {self.read:,} pairs read from {' and '.join(self.files)}, {self.kept:,} kept"]
        for reason, dropped in self.dropped.items():
            lines.append(f"  dropped, {reason}: {dropped.count:,}{format_lines(dropped.lines, dropped.count)}")
            lines += [f"    line {line}: {excerpt}" for line, excerpt in dropped.examples]
        if self.duplicates:
            lines.append(f"  duplicates kept: {self.duplicates:,} (drop_duplicates = true leaves them out of training)")
        return lines + [f"  {note}" for note in self.notes]


@dataclass(frozen=True)
class PairFiles:
    """Where the pairs of a corpus stand: in two files, or in one TSV or JSONL file."""

    source: str | Path | None = None
    target: str | Path | None = None
    pairs: str | Path | None = None

    def __post_init__(self) -> None:
        if self.pairs is None and (self.source is None or self.target is None):
            raise UsageError("pairs come from a source and a target file, or from one file of pairs; give either")

    @property
    def paths(self) -> dict[str, Path]:
        """Each file by its role: "source" and "target", or "pairs"."""
        if self.pairs is not None:
            return {"pairs": Path(self.pairs)}
        return {"source": Path(str(self.source)), "target": Path(str(self.target))}

    @property
    def names(self) -> tuple[str, ...]:
        """The files as they were given."""
        return (str(self.pairs),) if self.pairs is not None else (str(self.source), str(self.target))


class PairReader:
    """The raw pairs of some files, line by line. After the last one `count` says how many there were, and `notes` what
    was mended; DataError is raised there with everything that is wrong with any of the files.
    """

    def __init__(self, files: PairFiles) -> None:
        self.files = files
        self.count = 0
        self.notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        readers = [LineReader(path) for path in self.files.paths.values()]
        yield from self._read_pairs_file(readers[0]) if len(readers) == 1 else self._read_two_files(*readers)
        self.count = readers[0].count
        self.notes = tuple(note for reader in readers for note in reader.notes)

    def _read_two_files(self, source: LineReader, target: LineReader) -> Iterator[Row]:
        sides = iter(source), iter(target)
        yield from zip(*sides, strict=False)
        for rest in sides:  # what is wrong further on
            deque(rest, maxlen=0)
        if causes := source.causes + target.causes:
            raise DataError(*causes)
        if source.count != target.count:
            raise DataError(
                f"{self.files.source} has {source.count:,} lines but {self.files.target} has {target.count:,}; line n "
                "of one must translate line n of the other: check for a stray line break or a missing line"
            )

    def _read_pairs_file(self, reader: LineReader) -> Iterator[Row]:
        path = str(self.files.pairs)
        parse = _parse_json if path.removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json")) else _parse_tsv
        wrong: dict[str, _Tally] = {}
        for number, line in enumerate(reader, 1):
            found = parse(line) if line.strip() else ("", "")
            if isinstance(found, str):
                wrong.setdefault(found, _Tally()).add(number)
            elif not wrong:
                yield found
        found_wrong = tuple(f"{path}: {some.count:,} lines {what}{some}" for what, some in wrong.items())
        if causes := reader.causes or found_wrong:
            raise DataError(*causes)


class PairFilter:
    """Leaves out pairs that cannot help, in the order they come, and counts what happened to them."""

    def __init__(self, filters: Filters | None) -> None:
        """Without `filters` only empty pairs are left out."""
        self._filters, self._seen = filters, SeenPairs()
        self._read = self._kept = self._repeated = 0
        self._dropped: dict[str, _Tally] = {}

    def keep_mask(self, pairs: Sequence[Pair]) -> list[bool]:
        """Which of the next pairs stay."""
        reasons = [_drop_reason(pair, self._filters) for pair in pairs]
        usable = [pair for pair, reason in zip(pairs, reasons, strict=True) if reason is None]
        new = iter(self._seen.first_seen(usable))
        drop = self._filters is not None and self._filters.drop_duplicates
        for place, reason in enumerate(reasons):
            if reason is None and not next(new):
                reasons[place] = "duplicate" if drop else None
                self._repeated += not drop
        for pair, reason in zip(pairs, reasons, strict=True):
            if reason is not None:
                self._dropped.setdefault(reason, _Tally()).add(pair.line, pair)
        keep = [reason is None for reason in reasons]
        self._read, self._kept = self._read + len(keep), self._kept + sum(keep)
        return keep

    def report(self, name: str, reader: PairReader) -> CorpusReport:
        """What was read and kept. Raises DataError where nothing was."""
        dropped = {
            reason: Dropped(some.count, tuple(some.lines), tuple(some.examples))
            for reason, some in self._dropped.items()
        }
        if not self._kept:
            reasons = ", ".join(f"{some.count:,} {reason}" for reason, some in dropped.items())
            raise DataError(
                f"{' and '.join(reader.files.names)}: none of the {self._read:,} pairs can be used ({reasons}); "
                "give sentences with their translations, or set max_length and max_ratio higher"
            )
        return CorpusReport(name, reader.files.names, self._read, self._kept, dropped, self._repeated, reader.notes)


class SeenPairs:
    """Remembers which pairs there were by 64 bits of each: 8 bytes a pair, 16 for a moment now and then.

    Two different pairs are taken for equal with a chance of n² / 2⁶⁵: once in 3,700 corpora of 100 million pairs.
    """

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.uint64]] = []  # sorted; each more than twice as long as the next

    def first_seen(self, pairs: Sequence[Pair]) -> list[bool]:
        """Whether each of the next pairs comes for the first time."""
        keys = np.array([_key(pair) for pair in pairs], dtype=np.uint64)
        new = np.zeros(len(keys), dtype=np.bool_)
        new[np.unique(keys, return_index=True)[1]] = True
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, keys), len(run) - 1)
            new &= run[places] != keys
        self._add(np.sort(keys[new]))
        known: list[bool] = new.tolist()
        return known

    def _add(self, run: npt.NDArray[np.uint64]) -> None:
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        if len(run):
            self._runs.append(run)


class _Tally:
    """How many, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.lines: list[int] = []
        self.examples: list[tuple[int, str]] = []

    def add(self, line: int, pair: Pair | None = None) -> None:
        self.count += 1
        if len(self.lines) < _NUMBERS:
            self.lines.append(line)
        if pair is not None and len(self.examples) < _EXAMPLES:
            self.examples.append((line, f"{_excerpt(pair.source)} ↔ {_excerpt(pair.target)}"))

    def __str__(self) -> str:
        return format_lines(self.lines, self.count)


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of `CHUNK`, the last one shorter."""
    rest = iter(items)
    while some := list(islice(rest, CHUNK)):
        yield some


def format_lines(lines: Sequence[int], count: int | None = None) -> str:
    """The first line numbers in brackets; `count` says how many there are where `lines` is already cut."""
    if not lines:
        return ""
    total = len(lines) if count is None else count
    shown = ", ".join(map(str, lines[:_NUMBERS]))
    return f" ({'line' if total == 1 else 'lines'} {shown}{' …' if total > _NUMBERS else ''})"


def _key(pair: Pair) -> int:
    text = f"{pair.source}\n{pair.target}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _parse_tsv(line: str) -> Row | str:
    """Both sides, or what is wrong."""
    sides = line.split("\t")
    if len(sides) != 2:
        return "do not hold exactly one tab between source and target; mend them, or give two files"
    return sides[0], sides[1]


def _parse_json(line: str) -> Row | str:
    """Both sides, or what is wrong."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return 'are not JSON; write one object per line, such as {"source": "…", "target": "…"}'
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("source", "target")):
        return "lack a text under the key source or target; give both"
    if "\0" in row["source"] + row["target"]:
        return "hold a NUL character; remove it"
    return row["source"], row["target"]


def _drop_reason(pair: Pair, filters: Filters | None) -> str | None:
    """Why this pair is left out, if it is."""
    if not pair.source or not pair.target:
        return "empty"
    if filters is None:
        return None
    shorter, longer = sorted((len(pair.source), len(pair.target)))
    if max(_word_count(pair.source), _word_count(pair.target)) > filters.max_length:
        return "too long"
    return "odd length ratio" if longer > _SHORT and longer > shorter * filters.max_ratio else None


def _word_count(text: str) -> int:
    return max(text.count(" ") + 1, -(-len(text) // _DENSE))


def _excerpt(text: str, room: int = 28) -> str:
    return text if 0 < len(text) <= room else f"{text[: room - 1]}…" if text else "(empty)"
