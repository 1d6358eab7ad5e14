"""Sentence pairs: reading them and filtering them in one pass, by length, length ratio and
duplicates.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
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

CHUNK = 1 << 14
"""Pairs that are filtered, tokenised and written at once."""
_EXAMPLES = 5  # excerpts per reason
_NUMBERS = 20  # line numbers in one sentence
_SHORT = 30
"""Characters of the longer side up to which any length ratio is accepted, since "是" may translate
"Yes, that is right.".
"""
_DENSE = 10  # characters that count as a word if spaces are rare

Row = tuple[str, str]
"""Source and target as they were read."""
SKIPPED = "", CUT + CUT
"""Stands for a line that is no pair: a header, or a further line of a pair that spans several."""
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
    """The words of both sides before cleaning, which word links refer to; None if they equal the
    words of the cleaned sides.
    """

    @classmethod
    def read(cls, source: str, target: str, line: int) -> Pair:
        """Clean both sides of a raw pair."""
        pair = cls(clean(source), clean(target), line)
        if (pair.source, pair.target) == (source, target):
            return pair
        words = given_words(source), given_words(target)
        if any(not side.is_clean or side.is_uneven for side in words):
            return replace(pair, words=words)
        return pair


@dataclass
class Dropped:
    """Lines that are unusable for one reason: their count, and the first of them."""

    count: int = 0
    lines: tuple[int, ...] = ()  # numbers of the first lines
    examples: tuple[tuple[int, str], ...] = ()  # line numbers with excerpts

    def add(self, line: int, pair: Pair | None = None) -> None:
        """Count a line, and keep an excerpt of its pair if there are few."""
        self.count += 1
        if len(self.lines) < _NUMBERS:
            self.lines += (line,)
        if pair is not None and len(self.examples) < _EXAMPLES:
            excerpt = f"{_excerpt(pair.source)} ↔ {_excerpt(pair.target)}"
            self.examples += ((line, excerpt),)


@dataclass(frozen=True)
class CorpusReport:
    """Report on reading and filtering one corpus."""

    name: str  # "train", "valid", "test", or the name of a corpus of the mix
    files: tuple[str, ...]
    read: int  # lines
    kept: int  # pairs
    # The keys are reasons: empty, too long, odd length ratio, duplicate.
    dropped: dict[str, Dropped] = field(default_factory=dict)
    duplicates: int = 0  # kept pairs that occurred before
    # Sentences on removed byte-order marks and CRs, and on the format of the pairs.
    notes: tuple[str, ...] = ()
    other_lines: int = 0  # lines among `read` that are `SKIPPED`

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
    max_line: int = MAX_LINE
    """Maximum number of characters of a line, or of both sides together in a file of pairs; longer
    lines are skipped.
    """

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
        """True if the pairs are one file of JSON lines."""
        name = str(self.pairs).removesuffix(".gz")
        return name.endswith((".jsonl", ".ndjson", ".json"))

    @property
    def names(self) -> tuple[str, ...]:
        """The paths as they were given."""
        if self.pairs is not None:
            return (str(self.pairs),)
        return str(self.source), str(self.target)


class PairReader:
    """Reads the raw pairs of a corpus line by line; a line that is no pair is `SKIPPED`.

    After the last pair, `count` is the number of lines and `notes` describes the repairs. All that
    is wrong with the files is raised then, in one DataError.
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
        if len(readers) == 1:
            yield from self._read_pairs_file(readers[0])
        else:
            yield from self._read_two_files(*readers)
        self.count = readers[0].count
        notes = [note for reader in readers for note in reader.notes]
        self.notes = (*notes, *self.notes)

    def _read_two_files(self, source: LineReader, target: LineReader) -> Iterator[Row]:
        source_lines = iter(source)
        target_lines = iter(target)
        yield from zip(source_lines, target_lines, strict=False)
        # The longer file is read to its end, to count its lines and to find all that is wrong.
        deque(source_lines, maxlen=0)
        deque(target_lines, maxlen=0)
        DataError.raise_all(source.causes + target.causes)
        if source.count != target.count:
            raise DataError(
                f"{self.files.source} has {source.count:,} lines but {self.files.target} has "
                f"{target.count:,}; line n of one must translate line n of the other: check for a "
                "stray line break or a missing line"
            )

    def _read_pairs_file(self, reader: LineReader) -> Iterator[Row]:
        path = str(self.files.pairs)
        lines = iter(reader)
        head = [] if self.files.is_json else [*islice(lines, HEAD)]
        is_csv = path.lower().removesuffix(".gz").endswith(".csv")
        dialect = infer_dialect(head, ";,\t" if is_csv else "\t")
        parse: Callable[[str], Row | str]
        records: Iterator[tuple[str, int]]  # with the number of lines of each record
        if self.files.is_json:
            parse = _parse_json
            records = ((line, 1) for line in lines)
        else:
            parse = dialect.pair
            records = dialect.records(chain(head, lines))

        unusable = dict[str, Dropped]()
        number = 1
        for record, count in records:
            row: Row | str = ("", "")
            if CUT in record:
                row = (CUT, CUT)
            elif record.strip():
                row = parse(record)
            if isinstance(row, str):
                unusable.setdefault(row, Dropped()).add(number)
            elif not unusable:
                # Only the texts count, because JSON is longer than they are.
                if sum(map(len, row)) > self.files.max_line:
                    row = (CUT, CUT)
                yield SKIPPED if number == 1 and dialect.names else row
                yield from [SKIPPED] * (count - 1)
            number += count

        self.notes = tuple(f"{path}: {note}" for note in dialect.notes())
        DataError.raise_all(reader.causes)
        causes = []
        for reason, dropped in unusable.items():
            numbers = format_lines(dropped.lines, dropped.count)
            causes.append(f"{path}: {_count_lines(dropped.count, reason)}{numbers}")
        DataError.raise_all(causes)


def _count_lines(count: int, reason: str) -> str:
    """Say how many lines are unusable, and the reason, which begins with a verb in the plural."""
    verb, _, predicate = reason.partition(" ")
    singular_forms = {"do": "does", "are": "is", "lack": "lacks", "hold": "holds"}
    singular = singular_forms.get(verb, verb)
    return counted(count, f"line {singular} {predicate}", f"lines {reason}")


class PairFilter:
    """Filters pairs by length and length ratio, drops duplicates, and counts the dropped pairs by
    reason.
    """

    def __init__(self, filters: Filters | None) -> None:
        """If `filters` is None, only empty pairs are dropped."""
        self._filters = filters
        self._seen = SeenPairs()
        self._read = 0
        self._kept = 0
        self._repeated = 0
        self._copies = 0  # kept pairs whose source and target are the same
        self._others = 0  # lines that are no pair
        self._dropped: dict[str, Dropped] = {}

    def keep_mask(self, pairs: Sequence[Pair]) -> list[bool]:
        """Return for each of the next pairs whether it is kept."""
        reasons = [_drop_reason(pair, self._filters) for pair in pairs]
        usable = [index for index, reason in enumerate(reasons) if reason is None]
        is_new = self._seen.first_seen([pairs[index] for index in usable])
        duplicates = [
            index for index, new in zip(usable, is_new, strict=True) if not new
        ]
        if self._filters is not None and self._filters.drop_duplicates:
            for index in duplicates:
                reasons[index] = "duplicate"
        else:
            self._repeated += len(duplicates)

        for pair, reason in zip(pairs, reasons, strict=True):
            if reason:
                self._dropped.setdefault(reason, Dropped()).add(pair.line, pair)
        keep = [reason is None for reason in reasons]
        self._read += len(keep)
        self._kept += sum(keep)
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
        return CorpusReport(
            name=name,
            files=reader.files.names,
            read=self._read,
            kept=self._kept,
            dropped=self._dropped,
            duplicates=self._repeated,
            notes=tuple(notes),
            other_lines=self._others,
        )


class SeenPairs:
    """Set of pairs for deduplication; it takes 8 bytes a pair, and up to 16 while it grows.

    Pairs are compared by a hash of 64 bits. The probability that any two different pairs of n are
    taken for equal is n² / 2⁶⁵: once in 3,700 corpora of 100 million pairs.
    """

    def __init__(self) -> None:
        # Sorted arrays of hashes; each is more than twice as long as the next.
        self._runs: list[npt.NDArray[np.uint64]] = []

    def first_seen(self, pairs: Sequence[Pair]) -> list[bool]:
        """Return for each of the next pairs whether it occurs for the first time."""
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
    """Format the first line numbers in brackets.

    `count` is the number of all lines if `lines` holds only the first.
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
    """Parse a line of JSON; return both sides, or what is wrong with the line."""
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
    """Return the reason to drop a pair; None if it is kept, empty if the line is no pair."""
    if pair.target == SKIPPED[1]:
        return ""
    if CUT in (pair.source, pair.target):
        return "too long"
    if not pair.source or not pair.target:
        return "empty"
    if filters is None:
        return None
    if max(word_count(pair.source), word_count(pair.target)) > filters.max_length:
        return "too long"
    shorter, longer = sorted((len(pair.source), len(pair.target)))
    if longer > _SHORT and longer > shorter * filters.max_ratio:
        return "odd length ratio"
    return None


def word_count(text: str) -> int:
    """Count the words of a line for `data.max_length`: the words between spaces or, if that is
    more, one for every ten characters.
    """
    return max(text.count(" ") + 1, -(-len(text) // _DENSE))


def _excerpt(text: str, room: int = 28) -> str:
    if text == CUT:
        return "(not read)"
    if not text:
        return "(empty)"
    return text if len(text) <= room else f"{text[: room - 1]}…"
