"""What is done with hypotheses once they are found: put in another order, or looked at with suspicion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from regard.search.rules import Array

__all__ = ["Repetition", "coverage", "likeness", "runaway"]

LEAST = 1e-6
"""A source entry that nothing was read from costs no more than this would."""
TIMES, PIECES = 5, 20
"""So many times on end, and so many pieces in all, are a runaway repetition."""


def coverage(weights: Array) -> float:
    """Σ over source entries of log min(Σ over target pieces of weights (T, S), 1): 0 where all of it was read.

    Wu et al. 2016, equation 14, without its β.
    """
    return float(np.log(np.clip(weights.sum(0), LEAST, 1.0)).sum())


def likeness(texts: Sequence[str], shares: Sequence[float]) -> list[float]:
    """How like each text is to all others, as chrF: the utility that minimum Bayes risk decoding expects of it.

    `shares` say how much each counts as one that could be right; a text is not compared with itself.
    """
    chrf, pairs = CHRF(), dict[tuple[str, str], float]()
    found = []
    for i, text in enumerate(texts):
        total = 0.0
        for j, (other, share) in enumerate(zip(texts, shares, strict=True)):
            if i != j and share:
                if (text, other) not in pairs:
                    pairs[text, other] = float(chrf.sentence_score(text, [other]).score)
                total += share * pairs[text, other]
        found.append(total)
    return found


@dataclass(frozen=True)
class Repetition:
    """A run of pieces written several times on end: `ids`, at `start`, `times` times."""

    start: int
    ids: tuple[int, ...]
    times: int


def runaway(target: Sequence[int], source: Sequence[int] = ()) -> Repetition | None:
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
