"""What is done with hypotheses once they are found: put in another order, or looked at with suspicion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from regard.search.rules import Array

__all__ = ["Repetition", "coverage", "find_repetition", "mbr_utility"]

ORDER, BETA = CHRF.CHAR_ORDER, CHRF.BETA
LEAST = 1e-6
"""A source entry that nothing was read from costs no more than this would."""
TIMES, PIECES = 5, 20
"""So many times on end, and so many pieces in all, are a runaway repetition."""


def coverage(weights: Array) -> float:
    """Σ over source entries of log min(Σ over target pieces of weights (T, S), 1): 0 where all of it was read.

    Wu et al. 2016, equation 14, without its β.
    """
    return float(np.log(np.clip(weights.sum(0), LEAST, 1.0)).sum())


def mbr_utility(texts: Sequence[str], shares: Sequence[float]) -> list[float]:
    """How like each text is to all others, as chrF: the utility that minimum Bayes risk decoding expects of it.

    `shares` say how much each counts as one that could be right; a text is not compared with itself.
    """
    scores = _chrf(texts) * np.asarray(shares, np.float64)  # (K, K)
    np.fill_diagonal(scores, 0)
    return [float(score) for score in scores.sum(1)]


def _chrf(texts: Sequence[str]) -> Array:
    """The chrF (K, K) of each text against each other as its reference, as sacreBLEU counts it by default: runs of one
    to six characters without spaces, precision and recall averaged over the lengths that both have, recall weighed
    twice. All at once, it takes a hundredth of the time.
    """
    joined = ["".join(text.split()) for text in texts]
    precision, recall, lengths = np.zeros((3, len(texts), len(texts)))
    for n in range(1, ORDER + 1):
        counts = _counted([[text[i : i + n] for i in range(len(text) - n + 1)] for text in joined])  # (K, runs)
        own = counts.sum(1)
        common = np.stack([np.minimum(row, counts).sum(1) for row in counts])  # never (K, K, runs)
        precision += common / np.maximum(own, 1)[:, None]
        recall += common / np.maximum(own, 1)
        lengths += (own[:, None] > 0) & (own > 0)
    precision, recall = precision / np.maximum(lengths, 1), recall / np.maximum(lengths, 1)
    weighed = BETA**2 * precision + recall
    return 100 * (1 + BETA**2) * precision * recall / np.where(weighed > 0, weighed, 1)


def _counted(rows: Sequence[Sequence[str]]) -> Array:
    """How often each run stands in each row."""
    numbers: dict[str, int] = {}
    for row in rows:
        for run in row:
            numbers.setdefault(run, len(numbers))
    counts = np.zeros((len(rows), max(1, len(numbers))), np.int32)
    for place, row in enumerate(rows):
        np.add.at(counts[place], [numbers[run] for run in row], 1)
    return counts


@dataclass(frozen=True)
class Repetition:
    """A run of pieces written several times on end: `ids`, at `start`, `times` times."""

    start: int
    ids: tuple[int, ...]
    times: int


def find_repetition(target: Sequence[int], source: Sequence[int] = ()) -> Repetition | None:
    """The longest repetition in a target that nobody can have meant: several times on end, and not so in its source."""
    found = _longest(target)
    if found is None or found.times < TIMES or found.times * len(found.ids) < PIECES:
        return None
    given = _longest(source)
    return None if given is not None and 2 * given.times >= found.times else found


def _longest(ids: Sequence[int]) -> Repetition | None:
    """The repetition that takes up most pieces; of equals the one with the shorter run."""
    found, most, row = None, 0, np.asarray(ids)
    for period in range(1, len(row) // 2 + 1):
        same = np.concatenate([[False], row[period:] == row[:-period], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            times = (end - start) // period + 1
            if times > 1 and times * period > most:
                most, found = times * period, Repetition(start, tuple(row[start : start + period].tolist()), times)
    return found
