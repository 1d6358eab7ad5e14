"""Reading and filtering of sentence pairs in one pass: length and ratio filters, and
deduplication.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress, islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from regard.common.counting import counted
from regard.common.errors import DataError, UsageError
from regard.common.reading import parse_json
from regard.data.delimited import HEAD, infer_dialect
from regard.data.given_words import GivenWords, given_words
from regard.data.text import CUT, JSON_SIZE, MAX_LINE, LineReader, clean, data_path

# Pairs that are filtered, tokenised and written at once; a multiple of eight.
CHUNK = 1 << 14
_EXAMPLES = 5  # excerpts per reason
_NUMBERS = 20  # line numbers in one sentence
# Characters of a longer side that may have any partner: "是" is "Yes, that is right.".
_SHORT = 30
_DENSE = 10  # characters that count as a word if spaces are rare

Row = tuple[str, str]
SKIPPED = "", CUT + CUT
"""Stands for a line that is no pair: names of columns, or the rest of a pair of several lines."""
T = TypeVar("T")


@dataclass(frozen=True)
class Filters:
    """Filters for pairs; CorpusSettings documents the fields."""

    max_length: int = 200
    max_ratio: float = 9.0
    drop_duplicates: bool = False


@dataclass(frozen=True)
class Pair:
    """A sentence and its translation, both cleaned, and their line number (counted from 1)."""

    source: str
    target: str
    line: int
    words: tuple[GivenWords, GivenWords] | None = field(
        default=None, compare=False, repr=False
    )
    """Its words as they were given, for links between them; None: those of the clean sides."""

    @classmethod
    def read(cls, source: str, target: str, line: int) -> Pair:
        """Clean both sides of a pair as it was given."""
        pair = cls(clean(source), clean(target), line)
        if (pair.source, pair.target) == (source, target):
            return pair
        words = given_words(source), given_words(target)
        return (
            replace(pair, words=words)
            if any(not side.is_clean or side.is_uneven for side in words)
            else pair
        )


@dataclass
class Dropped:
    """Lines that cannot be used for one reason: their number, and the first of them."""

    count: int = 0
    lines: tuple[int, ...] = ()  # line numbers of the first
    examples: tuple[tuple[int, str], ...] = ()  # fewer, each with an excerpt

    def add(self, line: int, pair: Pair | None = None) -> None:
        """Count a line; an excerpt of its pair may be an example."""
        self.count += 1
        if len(self.lines) < _NUMBERS:
            self.lines += (line,)
        if pair is not None and len(self.examples) < _EXAMPLES:
            self.examples += (
                (line, f"{_excerpt(pair.source)} ↔ {_excerpt(pair.target)}"),
            )


@dataclass(frozen=True)
class CorpusReport:
    """Report on reading and filtering one corpus."""

    name: str  # "train", "valid", "test", or that of a corpus of the mix
    files: tuple[str, ...]
    read: int  # lines
    kept: int
    # By reason: empty, too long, odd length ratio, duplicate.
    dropped: dict[str, Dropped] = field(default_factory=dict)
    duplicates: int = 0  # kept pairs that occurred before
    # On byte-order marks and CRs that were removed, and on how pairs were read.
    notes: tuple[str, ...] = ()
    other_lines: int = 0  # those read that are `SKIPPED`

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        read = self.read - self.other_lines
        count = f"{read:,} pair{'s' if read != 1 else ''}"
        lines = [
            f"{self.name}: {count} read from {' and '.join(self.files)}, {self.kept:,} kept"
        ]
        for reason, dropped in self.dropped.items():
            lines.append(
                f"  dropped, {reason}: "
                f"{dropped.count:,}{format_lines(dropped.lines, dropped.count)}"
            )
            lines += [
                f"    line {line}: {excerpt}" for line, excerpt in dropped.examples
            ]
        if self.duplicates:
            lines.append(
                f"  duplicates kept: {self.duplicates:,} (drop_duplicates = true leaves them out "
                "of training)"
            )
        return lines + [f"  {note}" for note in self.notes]


@dataclass(frozen=True)
class PairFiles:
    """The files of a corpus: two files of lines, or one TSV, CSV or JSONL file."""

    source: str | Path | None = None
    target: str | Path | None = None
    pairs: str | Path | None = None
    max_line: int = (
        # Characters, of both sides together in a file of pairs; longer lines are
        # skipped.
        MAX_LINE
    )

    def __post_init__(self) -> None:
        if self.pairs is None and (self.source is None or self.target is None):
            raise UsageError(
                "pairs come from a source and a target file, or from one file of pairs; give one "
                "or the other"
            )

    @property
    def paths(self) -> dict[str, Path]:
        """Each file by its role: "source" and "target", or "pairs"."""
        if self.pairs is not None:
            return {"pairs": data_path(self.pairs)}
        return {
            "source": data_path(str(self.source)),
            "target": data_path(str(self.target)),
        }

    @property
    def is_json(self) -> bool:
        """Return whether there is one file of JSON lines."""
        return (
            str(self.pairs).removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json"))
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The paths as they were given."""
        return (
            (str(self.pairs),)
            if self.pairs is not None
            else (str(self.source), str(self.target))
        )


class PairReader:
    """Reads the raw pairs of a corpus line by line; a line that is no pair is `SKIPPED`.

    After the last pair, `count` is the number of lines and `notes` says what was repaired.
    Everything that is wrong with any of the files is raised there in one DataError.
    """

    def __init__(self, files: PairFiles) -> None:
        self.files = files
        self.count = 0
        self.notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        max_line = self.files.max_line * (JSON_SIZE if self.files.is_json else 1)
        readers = [
            LineReader(path, max_line, skip_long=True)
            for path in self.files.paths.values()
        ]
        yield from (
            self._read_pairs_file(readers[0])
            if len(readers) == 1
            else self._read_two_files(*readers)
        )
        self.count = readers[0].count
        self.notes = (
            *(note for reader in readers for note in reader.notes),
            *self.notes,
        )

    def _read_two_files(self, source: LineReader, target: LineReader) -> Iterator[Row]:
        sides = iter(source), iter(target)
        yield from zip(*sides, strict=False)
        for side in sides:  # to find all that is wrong further on
            deque(side, maxlen=0)
        DataError.raise_all(source.causes + target.causes)
        if source.count != target.count:
            raise DataError(
                f"{self.files.source} has {source.count:,} lines but {self.files.target} has "
                f"{target.count:,}; line n of one must translate line n of the other: check for a "
                "stray line break or a missing line"
            )

    def _read_pairs_file(self, reader: LineReader) -> Iterator[Row]:
        path = str(self.files.pairs)
        longest = self.files.max_line
        wrong = dict[str, Dropped]()
        lines = iter(reader)
        number = 1
        head = [] if self.files.is_json else [*islice(lines, HEAD)]
        dialect = infer_dialect(
            head, ";,\t" if path.lower().removesuffix(".gz").endswith(".csv") else "\t"
        )
        parse = _parse_json if self.files.is_json else dialect.pair
        records = (
            ((line, 1) for line in lines)
            if self.files.is_json
            else dialect.records(chain(head, lines))
        )
        for record, count in records:
            row = (
                (CUT, CUT)
                if CUT in record
                else parse(record)
                if record.strip()
                else ("", "")
            )
            if not isinstance(row, str) and sum(map(len, row)) > longest:
                row = (CUT, CUT)  # JSON is longer than its texts
            if isinstance(row, str):
                wrong.setdefault(row, Dropped()).add(number)
            elif not wrong:
                yield SKIPPED if number == 1 and dialect.names else row
                yield from [SKIPPED] * (count - 1)
            number += count
        self.notes = tuple(f"{path}: {note}" for note in dialect.notes())
        DataError.raise_all(reader.causes)
        bad = (
            (_count_lines(lines.count, why), format_lines(lines.lines, lines.count))
            for why, lines in wrong.items()
        )
        DataError.raise_all(f"{path}: {problem}{numbers}" for problem, numbers in bad)


def _count_lines(count: int, why: str) -> str:
    """Return how many lines are wrong, and `why`, which begins with a verb in the plural."""
    verb, _, rest = why.partition(" ")
    singular = {"do": "does", "are": "is", "lack": "lacks", "hold": "holds"}.get(
        verb, verb
    )
    return counted(count, f"line {singular} {rest}", f"lines {why}")


class PairFilter:
    """Filter and deduplicate pairs by length, ratio and hash, and count the dropped ones by
    reason.
    """

    def __init__(self, filters: Filters | None) -> None:
        """Without `filters` only empty pairs are dropped."""
        self._filters = filters
        self._seen = SeenPairs()
        self._read = self._kept = self._repeated = self._copies = self._others = 0
        self._dropped: dict[str, Dropped] = {}

    def keep_mask(self, pairs: Sequence[Pair]) -> list[bool]:
        """Return which of the next pairs are kept."""
        reasons = [_drop_reason(pair, self._filters) for pair in pairs]
        usable = [
            pair for pair, reason in zip(pairs, reasons, strict=True) if reason is None
        ]
        new = iter(self._seen.first_seen(usable))
        drop = self._filters is not None and self._filters.drop_duplicates
        for index, reason in enumerate(reasons):
            if reason is None and not next(new):
                reasons[index] = "duplicate" if drop else None
                self._repeated += not drop
        for pair, reason in zip(pairs, reasons, strict=True):
            if reason:
                self._dropped.setdefault(reason, Dropped()).add(pair.line, pair)
        keep = [reason is None for reason in reasons]
        self._read = self._read + len(keep)
        self._kept = self._kept + sum(keep)
        self._others += reasons.count("")
        self._copies += sum(
            pair.source == pair.target for pair in compress(pairs, keep)
        )
        return keep

    def report(self, name: str, reader: PairReader) -> CorpusReport:
        """Return the report. Raises DataError if no pair was kept."""
        if not self._kept:
            reasons = ", ".join(
                f"{pairs.count:,} {reason}" for reason, pairs in self._dropped.items()
            )
            raise DataError(
                f"{' and '.join(reader.files.names)}: none of the {counted(self._read, 'pair')} "
                f"can be used ({reasons}); give sentences with their translations, or set "
                "max_length and max_ratio higher"
            )
        notes = list(reader.notes)
        if 2 * self._copies > self._kept:
            same = f"the same in {self._copies:,} of {self._kept:,} pairs"
            notes.append(
                f"warning: source and target are {same}; a model that learns from these copies its "
                "input"
            )
        counts = self._read, self._kept, self._dropped, self._repeated
        return CorpusReport(
            name, reader.files.names, *counts, tuple(notes), self._others
        )


class SeenPairs:
    """Set of pairs for deduplication, by a hash of 64 bits: 8 bytes a pair, at times 16 while it
    grows.

    Two different pairs are taken for equal with a probability of n² / 2⁶⁵: once in 3,700 corpora of
    100 million pairs.
    """

    def __init__(self) -> None:
        # Sorted; each more than twice as long as the next.
        self._runs: list[npt.NDArray[np.uint64]] = []

    def first_seen(self, pairs: Sequence[Pair]) -> list[bool]:
        """Return whether each of the next pairs occurs for the first time."""
        keys = np.array([_key(pair) for pair in pairs], dtype=np.uint64)
        new = np.zeros(len(keys), dtype=np.bool_)
        new[np.unique(keys, return_index=True)[1]] = True
        for run in self._runs:
            nearest = np.minimum(np.searchsorted(run, keys), len(run) - 1)
            new &= run[nearest] != keys
        self._add(np.sort(keys[new]))
        first: list[bool] = new.tolist()
        return first

    def _add(self, run: npt.NDArray[np.uint64]) -> None:
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        if len(run):
            self._runs.append(run)


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in lists of `CHUNK`, the last one shorter."""
    remaining = iter(items)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk


def format_lines(lines: Sequence[int], count: int | None = None) -> str:
    """Format the first line numbers in brackets; `count` is their number if `lines` is
    truncated.
    """
    if not lines:
        return ""
    total = len(lines) if count is None else count
    shown = ", ".join(map(str, lines[:_NUMBERS]))
    return f" ({'line' if total == 1 else 'lines'} {shown}{' …' if total > _NUMBERS else ''})"


def _key(pair: Pair) -> int:
    text = f"{pair.source}\n{pair.target}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _parse_json(line: str) -> Row | str:
    """Parse a line of JSON: both sides, or what is wrong with it."""
    try:
        row = parse_json(line)
    except ValueError:
        return 'are not JSON; write one object per line, such as {"source": "…", "target": "…"}'
    if not isinstance(row, dict) or not all(
        isinstance(row.get(key), str) for key in ("source", "target")
    ):
        return "lack a text under the key source or target; give both"
    if "\0" in row["source"] + row["target"]:
        return "hold a NUL character; remove it"
    return row["source"], row["target"]


def _drop_reason(pair: Pair, filters: Filters | None) -> str | None:
    """Return why this pair is dropped, or None; empty for a line that is no pair."""
    if pair.target == SKIPPED[1]:
        return ""
    if CUT in (pair.source, pair.target):
        return "too long"
    if not pair.source or not pair.target:
        return "empty"
    if filters is None:
        return None
    shorter, longer = sorted((len(pair.source), len(pair.target)))
    if max(word_count(pair.source), word_count(pair.target)) > filters.max_length:
        return "too long"
    return (
        "odd length ratio"
        if longer > _SHORT and longer > shorter * filters.max_ratio
        else None
    )


def word_count(text: str) -> int:
    """Count the words of a line for `data.max_length`: those between spaces, or one for every ten
    characters.
    """
    return max(text.count(" ") + 1, -(-len(text) // _DENSE))


def _excerpt(text: str, room: int = 28) -> str:
    if text == CUT:
        return "(not read)"
    return (
        text if 0 < len(text) <= room else f"{text[: room - 1]}…" if text else "(empty)"
    )
