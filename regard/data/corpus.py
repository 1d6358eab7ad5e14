"""Parallel text: reading it from files, leaving out what cannot help, and saying what was done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pydantic
from pydantic import Field

from regard.data.text import clean, read_file, read_files
from regard.errors import DataError, UsageError
from regard.settings import Settings

__all__ = [
    "Corpus",
    "CorpusReport",
    "CorpusSettings",
    "Dropped",
    "Filters",
    "Pair",
    "fingerprint",
    "overlap",
    "read_corpus",
    "read_pairs",
    "report_lines",
]

_EXAMPLES = 5  # excerpts per reason
_NUMBERS = 20  # line numbers in one sentence
_SHORT = 30  # characters of a longer side that may have any partner: "是" is "Yes, that is right."
_DENSE = 10  # characters that count as a word where spaces are rare


class CorpusSettings(Settings):
    """Where sentence pairs come from, and which are left out of training."""

    source: str | None = Field(None, description="File of training sentences, one per line; .gz is read too.")
    target: str | None = Field(None, description="File of their translations, line by line.")
    pairs: str | None = Field(None, description="Instead of both: a TSV file, or JSONL with keys source and target.")
    valid_source: str | None = Field(None, description="Sentences on which training is watched.")
    valid_target: str | None = Field(None, description="Their translations.")
    valid_pairs: str | None = Field(None, description="Instead of both: a TSV or JSONL file.")
    test_source: str | None = Field(None, description="Test sentences, read only to see whether training holds them.")
    test_target: str | None = Field(None, description="Their translations.")
    test_pairs: str | None = Field(None, description="Instead of both: a TSV or JSONL file.")
    max_length: int = Field(200, ge=1, description="Longest training sentence in words (ten characters also make one).")
    max_ratio: float = Field(
        9.0, ge=1, description="How many times longer than the other a side of more than 30 characters may be."
    )
    drop_duplicates: bool = Field(False, description="Keep only the first of equal training pairs.")

    @pydantic.model_validator(mode="after")
    def _one_way_each(self) -> CorpusSettings:
        problems = [_problem(prefix, *self.files(prefix)) for prefix in ("", "valid_", "test_")]
        if found := [problem for problem in problems if problem]:
            raise ValueError("; ".join(found))
        return self

    def files(self, prefix: str) -> tuple[str | None, str | None, str | None]:
        """The source, target and pairs file of training (prefix ""), "valid_" or "test_"."""
        source, target, pairs = (getattr(self, prefix + name) for name in ("source", "target", "pairs"))
        return source, target, pairs

    @property
    def filters(self) -> Filters:
        """What training leaves out."""
        return Filters(self.max_length, self.max_ratio, self.drop_duplicates)


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

    where: str  # "train", "valid" or "test"
    files: tuple[str, ...]
    read: int
    kept: int
    dropped: dict[str, Dropped] = field(default_factory=dict)  # by reason: empty, too long, odd length ratio, duplicate
    duplicates: int = 0  # kept pairs that were there before
    notes: tuple[str, ...] = ()  # byte-order marks and CRs that were taken off

    def lines(self) -> list[str]:
        """The report as a person reads it."""
        lines = [f"{self.where}: {self.read:,} pairs read from {' and '.join(self.files)}, {self.kept:,} kept"]
        for reason, dropped in self.dropped.items():
            lines.append(f"  dropped, {reason}: {dropped.count:,}{_numbers(dropped.lines, dropped.count)}")
            lines += [f"    line {line}: {excerpt}" for line, excerpt in dropped.examples]
        if self.duplicates:
            lines.append(f"  duplicates kept: {self.duplicates:,} (drop_duplicates = true leaves them out of training)")
        return lines + [f"  {note}" for note in self.notes]


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs and how they came about."""

    pairs: tuple[Pair, ...]
    report: CorpusReport

    @property
    def sources(self) -> list[str]:
        """The sentences, in order."""
        return [pair.source for pair in self.pairs]

    @property
    def targets(self) -> list[str]:
        """Their translations, in order."""
        return [pair.target for pair in self.pairs]


def read_corpus(settings: CorpusSettings) -> dict[str, Corpus]:
    """The "train" pairs and, where files are given, "valid" and "test". Raises DataError with all causes at once."""
    corpora: dict[str, Corpus] = {}
    causes: list[str] = []
    for where, prefix in (("train", ""), ("valid", "valid_"), ("test", "test_")):
        source, target, pairs = settings.files(prefix)
        if source is None and pairs is None:
            continue
        try:
            filters = settings.filters if where == "train" else None
            corpora[where] = read_pairs(source, target, pairs, filters, where)
        except DataError as problem:
            causes += problem.causes
    if causes:
        raise DataError(*causes)
    return corpora


def read_pairs(
    source: str | Path | None = None,
    target: str | Path | None = None,
    pairs: str | Path | None = None,
    filters: Filters | None = None,
    where: str = "train",
) -> Corpus:
    """Sentence pairs from two files, or from one TSV or JSONL file; without `filters` only empty ones are dropped."""
    if pairs is not None:
        found, notes = _one_file(pairs)
        files: tuple[str, ...] = (str(pairs),)
    else:
        if source is None or target is None:
            raise UsageError("pairs come from a source and a target file, or from one file of pairs; give either")
        found, notes = _two_files(source, target)
        files = (str(source), str(target))
    return _filtered(found, filters, CorpusReport(where, files, len(found), 0, notes=notes))


def overlap(train: Corpus, other: Corpus, name: str) -> list[str]:
    """How much of another corpus training has already seen: whole pairs, sources, targets, with first line numbers."""
    whole = {(pair.source, pair.target) for pair in train.pairs}
    sources, targets = set(train.sources), set(train.targets)
    found = {
        "pairs": [pair.line for pair in other.pairs if (pair.source, pair.target) in whole],
        "sources": [pair.line for pair in other.pairs if pair.source in sources],
        "targets": [pair.line for pair in other.pairs if pair.target in targets],
    }
    if not any(found.values()):
        return [f"{name}: none of its {len(other.pairs):,} pairs shares a side with train"]
    return [
        f"{name}: {len(lines):,} of {len(other.pairs):,} {kind} are also in train{_numbers(lines)}"
        for kind, lines in found.items()
    ]


def report_lines(corpora: Mapping[str, Corpus]) -> list[str]:
    """The whole corpus report: each part, then what valid and test share with train."""
    lines = [line for corpus in corpora.values() for line in corpus.report.lines()]
    for name, corpus in corpora.items():
        lines += overlap(corpora["train"], corpus, name) if name != "train" else []
    return lines


def fingerprint(texts: Iterable[str]) -> str:
    """The SHA-256 of a text, line by line: which data a model was made from."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "replace") + b"\n")
    return digest.hexdigest()


def _problem(prefix: str, source: str | None, target: str | None, pairs: str | None) -> str | None:
    """What is wrong with how a corpus is named, if anything."""
    both, one = f"{prefix}source and {prefix}target", f"{prefix}pairs"
    if pairs is not None and (source is not None or target is not None):
        return f"{both} exclude {one}; give one or the other"
    if (source is None) != (target is None):
        given, missing = ("source", "target") if target is None else ("target", "source")
        return f"{prefix}{given} is given without {prefix}{missing}; give {both}"
    if not prefix and source is None and pairs is None:
        return f"no training pairs; give {both}, or {one}"
    return None


def _two_files(source: str | Path, target: str | Path) -> tuple[list[Pair], tuple[str, ...]]:
    files = read_files((source, target))
    counts = [len(file.lines) for file in files]
    if counts[0] != counts[1]:
        raise DataError(
            f"{source} has {counts[0]:,} lines but {target} has {counts[1]:,}; line n of one must translate line n "
            "of the other: check for a stray line break or a missing line"
        )
    rows = zip(files[0].lines, files[1].lines, strict=True)
    return [Pair(clean(a), clean(b), n) for n, (a, b) in enumerate(rows, 1)], files[0].notes + files[1].notes


def _one_file(path: str | Path) -> tuple[list[Pair], tuple[str, ...]]:
    file = read_file(path)
    parse = _from_json if str(path).removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json")) else _from_tabs
    pairs: list[Pair] = []
    wrong: dict[str, list[int]] = {}
    for number, line in enumerate(file.lines, 1):
        found = parse(line) if line.strip() else ("", "")
        if isinstance(found, str):
            wrong.setdefault(found, []).append(number)
        else:
            pairs.append(Pair(clean(found[0]), clean(found[1]), number))
    if wrong:
        raise DataError(*(f"{path}: {len(lines):,} lines {what}{_numbers(lines)}" for what, lines in wrong.items()))
    return pairs, file.notes


def _from_tabs(line: str) -> tuple[str, str] | str:
    """Both sides, or what is wrong."""
    sides = line.split("\t")
    if len(sides) != 2:
        return "do not hold exactly one tab between source and target; mend them, or give two files"
    return sides[0], sides[1]


def _from_json(line: str) -> tuple[str, str] | str:
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


def _filtered(pairs: Sequence[Pair], filters: Filters | None, report: CorpusReport) -> Corpus:
    kept: list[Pair] = []
    dropped: dict[str, list[Pair]] = {}
    seen: set[tuple[str, str]] = set()
    for pair in pairs:
        sides = (pair.source, pair.target)
        reason = _reason(pair, filters)
        if reason is None and filters and filters.drop_duplicates and sides in seen:
            reason = "duplicate"
        (dropped.setdefault(reason, []) if reason else kept).append(pair)
        seen |= set() if reason else {sides}
    what = {reason: _summary(some) for reason, some in dropped.items()}
    if not kept:
        raise DataError(_nothing_left(report, what))
    numbers = {"kept": len(kept), "duplicates": len(kept) - len(seen)}
    return Corpus(tuple(kept), CorpusReport(**{**vars(report), **numbers, "dropped": what}))


def _nothing_left(report: CorpusReport, dropped: Mapping[str, Dropped]) -> str:
    reasons = ", ".join(f"{some.count:,} {reason}" for reason, some in dropped.items())
    return (
        f"{' and '.join(report.files)}: none of the {report.read:,} pairs can be used ({reasons}); "
        "give sentences with their translations, or set max_length and max_ratio higher"
    )


def _reason(pair: Pair, filters: Filters | None) -> str | None:
    """Why this pair is left out, if it is."""
    if not pair.source or not pair.target:
        return "empty"
    if filters is None:
        return None
    shorter, longer = sorted((len(pair.source), len(pair.target)))
    if max(_words(pair.source), _words(pair.target)) > filters.max_length:
        return "too long"
    return "odd length ratio" if longer > _SHORT and longer > shorter * filters.max_ratio else None


def _words(text: str) -> int:
    return max(text.count(" ") + 1, -(-len(text) // _DENSE))


def _summary(pairs: Sequence[Pair]) -> Dropped:
    lines = tuple(pair.line for pair in pairs[:_NUMBERS])
    return Dropped(len(pairs), lines, tuple(map(_shown, pairs[:_EXAMPLES])))


def _shown(pair: Pair) -> tuple[int, str]:
    source, target = (_excerpt(text) for text in (pair.source, pair.target))
    return pair.line, f"{source} ↔ {target}"


def _excerpt(text: str, room: int = 28) -> str:
    return text if 0 < len(text) <= room else f"{text[: room - 1]}…" if text else "(empty)"


def _numbers(lines: Sequence[int], count: int | None = None) -> str:
    """The first line numbers in brackets; `count` says how many there are where `lines` is already cut."""
    if not lines:
        return ""
    total = len(lines) if count is None else count
    shown = ", ".join(map(str, lines[:_NUMBERS]))
    return f" ({'line' if total == 1 else 'lines'} {shown}{' …' if total > _NUMBERS else ''})"
