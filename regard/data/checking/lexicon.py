"""Lexicon of words that translate each other: IBM model 1 (Brown et al. 1993) between word stems,
in both directions, learnt from the pairs that it then judges.

Axes: R rows, S source stems, T target stems of all rows; E pairs of a source and a target stem of
one row; K different such pairs; 2 directions: from source to target, and back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from regard.data.checking.key_index import Ints, KeyIndex
from regard.data.language_id import letters_of_words

STEM = 5
"""Letters of a word that count, since endings vary."""
DENSE_STEM = 2
"""The same of Hangul, Kana and Chinese characters."""
STEMS = 40
"""Stems of a text that are read."""
ROUNDS = 5
"""Rounds of expectation maximisation."""
LEARNT_AT_ONCE = 4096
"""Pairs of texts whose pairs of stems are counted at once."""
_NULL = 0.1
"""Weight of the empty source word."""
_FLOOR = 0.02
"""Share of the background in the probability of a stem that no source stem explains."""
_DENSE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]+|[\uac00-\ud7a3]+")
_DIGITS = re.compile(r"\d+")

Floats = npt.NDArray[np.float64]


@lru_cache(maxsize=1 << 13)
def stems(text: str) -> tuple[str, ...]:
    """Return the stems of a text's words, each once, and its numbers.

    They are remembered, since the texts of a sample are paired in many ways.
    """
    words = letters_of_words(text).split()
    parts = chain.from_iterable(map(_stems_of_word, words))
    return tuple(dict.fromkeys(chain(parts, _DIGITS.findall(text))))[:STEMS]


@lru_cache(maxsize=1 << 16)
def _stems_of_word(word: str) -> Sequence[str]:
    if _DENSE.match(word) is None:
        return (word[:STEM],)
    if word[0] >= "\uac00":
        return (word[:DENSE_STEM],)
    # Words of Japanese and Chinese are not divided.
    starts = range(max(1, len(word) - 1))
    return [word[start : start + DENSE_STEM] for start in starts]


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
            if grows:
                ids += [table.setdefault(stem, len(table)) for stem in stems(text)]
            else:
                ids += [table[stem] for stem in stems(text) if stem in table]
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


class StemPairs:
    """Each pair of a source and a target stem of the same row."""

    def __init__(self, sources: Stems, targets: Stems, rows: Ints) -> None:
        self.size = len(rows)
        source_rows, source_ids = sources.select(rows)
        target_rows, target_ids = targets.select(rows)
        self.rows = source_rows, target_rows  # of each stem: (S,), (T,)
        self.ids = source_ids, target_ids  # (S,), (T,)
        counts = sources.counts[rows]
        starts = np.cumsum(counts) - counts
        repeats = counts[target_rows]
        ends = np.cumsum(repeats)
        first = starts[target_rows] - (ends - repeats)
        source = np.arange(repeats.sum()) + np.repeat(first, repeats)
        target = np.repeat(np.arange(len(target_rows)), repeats)
        # Of the two stems of each pair: (E,), (E,).
        self.places = source.astype(np.int32), target.astype(np.int32)

    def keys(self, width: int) -> Ints:
        """Return a number for each pair (E,); `width`: number of different target stems."""
        source, target = self.places
        keys: Ints = self.ids[0][source] * width + self.ids[1][target]
        return keys

    def shares(self, side: int, probabilities: Floats, background: Floats) -> Floats:
        """Return the probability that each pair translates one another (E,), if the stems of a
        side are given and have these `probabilities` (E,); `background`: of the other stems.
        """
        explained = self.places[1 - side]
        norms = _sums(explained, probabilities, len(background)) + _NULL * background
        return probabilities / np.maximum(norms, 1e-12)[explained]


@dataclass(frozen=True)
class Lexicon:
    """Expected counts of source and target stems that translate each other."""

    index: (
        KeyIndex  # of the pairs of stems, whose key is source * target stems + target
    )
    probabilities: (
        Floats  # by which each count is expected (K + 1, 2); the last row is 0
    )
    counts: Floats  # (K + 1, 2); the last row, of any other pair, is 0
    totals: Sequence[Floats]  # expected counts of each source, target stem
    occurrences: Sequence[Ints]  # texts in which each source, target stem occurs

    @classmethod
    def learn(
        cls, sources: Stems, targets: Stems, rows: Ints, sizes: tuple[int, int]
    ) -> Lexicon:
        """Learn from the pairs of texts in these rows; `sizes`: numbers of different stems."""
        blocks = [
            StemPairs(sources, targets, rows[start : start + LEARNT_AT_ONCE])
            for start in range(0, len(rows), LEARNT_AT_ONCE)
        ]
        keys = [_distinct(pairs.keys(sizes[1])) for pairs in blocks]
        index = KeyIndex(_distinct(np.concatenate(keys)))
        del keys
        places = [
            index.places(pairs.keys(sizes[1])).astype(np.int32) for pairs in blocks
        ]
        learnt = list(zip(blocks, places, strict=True))
        occurrences = [
            np.bincount(texts.select(rows)[1], minlength=size)
            for texts, size in zip((sources, targets), sizes, strict=True)
        ]
        probabilities, counts = np.zeros((2, len(index.keys) + 1, 2))
        totals = list[Floats]()
        for side, given in enumerate(np.divmod(index.keys, sizes[1])):
            expected = _expect(learnt, side, given, occurrences[1 - side])
            probabilities[:-1, side], counts[:-1, side] = expected
            totals.append(_sums(given, expected[1], sizes[side]))
        return cls(index, probabilities, counts, totals, occurrences)

    def scores(
        self, sources: Stems, targets: Stems, rows: Ints, is_learnt: bool
    ) -> tuple[Floats, Floats]:
        """Return how well the stems of each pair of texts explain each other: the gain over the
        background in nats, divided by the root of the number of known stems, for both directions
        together; and the number of known target stems.

        `is_learnt`: the pairs were learnt from, and what they themselves have taught does not
        count.
        """
        pairs = StemPairs(sources, targets, rows)
        places = self.index.places(pairs.keys(len(self.occurrences[1])))
        forth, known = self._gains(pairs, places, 0, is_learnt)
        back, _ = self._gains(pairs, places, 1, is_learnt)
        return forth + back, known

    def _gains(
        self, pairs: StemPairs, places: Ints, side: int, is_learnt: bool
    ) -> tuple[Floats, Floats]:
        """Return the gains, and the numbers of known stems, if the stems of a side are given and
        those of the other explained.
        """
        given, explained = pairs.places[side], pairs.places[1 - side]
        ids, rows = pairs.ids[1 - side], pairs.rows[1 - side]
        occurrences = self.occurrences[1 - side]
        background = occurrences[ids] / max(1, occurrences.sum())
        counts = self.counts[places, side]
        totals = self.totals[side][pairs.ids[side]]
        if is_learnt:
            own = pairs.shares(side, self.probabilities[places, side], background)
            counts = np.maximum(counts - own, 0)
            totals = totals - _sums(given, own, len(totals))
        probabilities = counts / np.maximum(totals + 0.5, 0.5)[given]

        chance = _sums(explained, probabilities, len(ids))
        lengths = np.maximum(np.bincount(pairs.rows[side], minlength=pairs.size), 1)
        known = occurrences[ids] > 1
        usual = np.where(known, background, 1.0)
        gains = np.log((chance / lengths[rows] + _FLOOR * usual) / usual)
        number = _sums(rows, known.astype(np.float64), pairs.size)
        gain = _sums(rows, gains * known, pairs.size)
        return gain / np.sqrt(np.maximum(number, 1)), number


def _expect(
    blocks: Sequence[tuple[StemPairs, npt.NDArray[np.int32]]],
    side: int,
    given: Ints,
    occurrences: Ints,
) -> tuple[Floats, Floats]:
    """Return the probability and the expected count of each of the different pairs of stems (K,),
    if the stems of a side are `given` (K,) and explain the others.

    `blocks`: the pairs of some texts, and which of the different pairs each is; `occurrences`: of
    the stems that are explained.
    """
    background = occurrences / max(1, occurrences.sum())
    probabilities = counts = np.ones(len(given))
    for _ in range(ROUNDS):
        probabilities = counts / _sums(given, counts)[given]
        counts = np.zeros(len(given))
        for pairs, places in blocks:
            usual = background[pairs.ids[1 - side]]
            shares = pairs.shares(side, probabilities[places], usual)
            counts += _sums(places, shares, len(given))
    return probabilities, counts


def _distinct(keys: Ints) -> Ints:
    """Return the different keys; sorting is faster here than the hash table of `numpy.unique`."""
    keys.sort()
    return keys[np.diff(keys, prepend=-1) > 0]


def _sums(groups: npt.NDArray[np.integer], values: Floats, size: int = 0) -> Floats:
    """Return the sum of the values of each group."""
    return np.bincount(groups, values, size).astype(np.float64, copy=False)
