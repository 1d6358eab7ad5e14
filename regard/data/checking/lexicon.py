"""Lexicon of words that translate each other: IBM model 1 (Brown et al. 1993) between word stems,
learnt from the pairs that it then judges.

Axes: R rows, S source stems, T target stems of all rows; E pairs of a source and a target stem of
one row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.data.language_id import letters_of_words

STEM = 5
"""Letters of a word that count, since endings vary."""
DENSE_STEM = 2
"""The same of Hangul, Kana and Chinese characters."""
STEMS = 40
"""Stems of a text that are read."""
ROUNDS = 5
"""Rounds of expectation maximisation."""
_NULL = 0.1
"""Weight of the empty source word."""
_FLOOR = 0.02
"""Share of the background in the probability of a stem that no source stem explains."""
_DENSE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]+|[\uac00-\ud7a3]+")
_DIGITS = re.compile(r"\d+")

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def stems(text: str) -> list[str]:
    """Return the stems of a text's words, each once, and its numbers."""
    stems_of_text = dict[str, None]()
    for word in letters_of_words(text).split():
        dense = _DENSE.match(word)
        if dense is None:
            stems_of_text[word[:STEM]] = None
        elif word[0] >= "\uac00":
            stems_of_text[word[:DENSE_STEM]] = None
        else:  # words of Japanese and Chinese are not divided
            for start in range(max(1, len(word) - 1)):
                stems_of_text[word[start : start + DENSE_STEM]] = None
    for number in _DIGITS.findall(text):
        stems_of_text[number] = None
    return list(stems_of_text)[:STEMS]


class Stems:
    """The stems of texts as ids: all in one array, and how many of them each text has."""

    def __init__(
        self, texts: Sequence[str], table: dict[str, int], grows: bool = True
    ) -> None:
        """Look stems up in `table`, which `grows` by those that it lacks, or ignores them."""
        ids = list[int]()
        counts = list[int]()
        for text in texts:
            before = len(ids)
            for stem in stems(text):
                if grows:
                    ids.append(table.setdefault(stem, len(table)))
                elif stem in table:
                    ids.append(table[stem])
            counts.append(len(ids) - before)
        self.ids = np.array(ids, np.int64)
        self.counts = np.array(counts, np.int64)
        self.starts = np.cumsum(self.counts) - self.counts

    def select(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the stems of these rows: for each the position of its row, and its id."""
        counts = self.counts[rows]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        positions = np.repeat(np.arange(len(rows)), counts)
        return positions, self.ids[np.repeat(self.starts[rows], counts) + within]


@dataclass(frozen=True)
class Lexicon:
    """Expected counts of source and target stems that translate each other."""

    keys: Ints  # source id * number of target stems + target id, sorted
    probabilities: Floats  # of each key, by which its count is expected
    counts: Floats  # of each key
    source_counts: Floats  # of each source stem
    target_counts: Ints  # texts in which each target stem occurs

    @classmethod
    def learn(
        cls, sources: Stems, targets: Stems, rows: Ints, sizes: tuple[int, int]
    ) -> Lexicon:
        """Learn from the pairs of texts in these rows; `sizes`: numbers of different stems."""
        source_rows, source_ids = sources.select(rows)
        target_rows, target_ids = targets.select(rows)
        source, target = _crossed(source_rows, target_rows, len(rows))
        target_counts = np.bincount(target_ids, minlength=sizes[1])
        background = target_counts / max(1, len(target_ids))
        keys, index = np.unique(
            source_ids[source] * sizes[1] + target_ids[target], return_inverse=True
        )
        probabilities = counts = np.ones(len(keys))
        source_counts = _sums(keys // sizes[1], counts, sizes[0])
        for _ in range(ROUNDS):
            probabilities = counts / source_counts[keys // sizes[1]]
            weights = probabilities[index]
            total = _sums(target, weights, len(target_ids))
            total += _NULL * background[target_ids]
            counts = _sums(index, weights / total[target], len(keys))
            source_counts = _sums(keys // sizes[1], counts, sizes[0])
        return cls(keys, probabilities, counts, source_counts, target_counts)

    def scores(
        self, sources: Stems, targets: Stems, rows: Ints, is_learnt: bool
    ) -> tuple[Floats, Floats]:
        """Return how well source stems explain target stems, of each pair of texts: the gain over
        the background in nats, divided by the root of the number of known stems; and that number.

        `is_learnt`: the pairs were learnt from, and what they themselves have taught does not
        count.
        """
        source_rows, source_ids = sources.select(rows)
        target_rows, target_ids = targets.select(rows)
        size = len(rows)
        source, target = _crossed(source_rows, target_rows, size)
        width = len(self.target_counts)
        background = self.target_counts / max(1, self.target_counts.sum())
        wanted = source_ids[source] * width + target_ids[target]
        index = _places(self.keys, wanted)
        is_known = self.keys[index] == wanted
        counts = np.where(is_known, self.counts[index], 0.0)
        totals = self.source_counts[source_ids[source]]
        if is_learnt:
            weights = np.where(is_known, self.probabilities[index], 0.0)
            norms = _sums(target, weights, len(target_ids))
            norms += _NULL * background[target_ids]
            own = weights / np.maximum(norms[target], 1e-12)
            counts = np.maximum(counts - own, 0)
            totals = totals - _sums(source, own, len(source_ids))[source]
        probabilities = counts / np.maximum(totals + 0.5, 0.5)

        explained = _sums(target, probabilities, len(target_ids))
        lengths = np.maximum(sources.counts[rows], 1)[target_rows]
        known = self.target_counts[target_ids] > 1
        usual = np.where(known, background[target_ids], 1.0)
        gains = np.log((explained / lengths + _FLOOR * usual) / usual)
        number = _sums(target_rows, known.astype(np.float64), size)
        gain = _sums(target_rows, gains * known, size)
        return gain / np.sqrt(np.maximum(number, 1)), number


def _places(keys: Ints, wanted: Ints) -> Ints:
    """Return where sorted keys have each wanted one, or another near it; keys are searched in
    their order, which keeps memory near.
    """
    order = np.argsort(wanted)
    places = np.empty_like(wanted)
    places[order] = np.searchsorted(keys, wanted[order])
    return np.minimum(places, len(keys) - 1)


def _sums(groups: Ints, values: Floats, size: int) -> Floats:
    """Return the sum of the values of each group."""
    return np.bincount(groups, values, size).astype(np.float64)


def _crossed(source_rows: Ints, target_rows: Ints, size: int) -> tuple[Ints, Ints]:
    """Return each pair of a source and a target stem of the same row, as indices (E, E)."""
    source_counts = np.bincount(source_rows, minlength=size)
    starts = np.cumsum(source_counts) - source_counts
    repeats = source_counts[target_rows]
    target = np.repeat(np.arange(len(target_rows)), repeats)
    within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return starts[target_rows[target]] + within, target
