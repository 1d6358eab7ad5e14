"""Filters of sentence pairs, in one pass: by length, length ratio and duplicates."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import numpy.typing as npt

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.file_formats import SKIPPED, PairReader
from regard.data.pairs import CorpusReport, Dropped, Pair
from regard.data.text import CUT

_SHORT = 30
"""Characters of the longer side up to which any length ratio is accepted, since "是" may translate
"Yes, that is right.".
"""
_DENSE = 10  # characters that count as a word if spaces are rare


@dataclass(frozen=True)
class Filters:
    """Filters for pairs; CorpusSettings documents the fields. Empty pairs are always dropped."""

    max_length: float = math.inf
    max_ratio: float = math.inf
    drop_duplicates: bool = False


class PairFilter:
    """Filters pairs by length and length ratio, drops duplicates, and counts the dropped pairs by
    reason.
    """

    def __init__(self, filters: Filters) -> None:
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
        if self._filters.drop_duplicates:
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


def _key(pair: Pair) -> int:
    text = f"{pair.source}\n{pair.target}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _drop_reason(pair: Pair, filters: Filters) -> str | None:
    """Return the reason to drop a pair; None if it is kept, empty if the line is no pair."""
    if pair.target == SKIPPED[1]:
        return ""
    if CUT in (pair.source, pair.target):
        return "too long"
    if not pair.source or not pair.target:
        return "empty"
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
