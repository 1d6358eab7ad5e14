"""Rerank hypotheses: coverage penalty and minimum Bayes risk (MBR) utility; and detect runaway
repetition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from regard.common.shapes import Array

ORDER = CHRF.CHAR_ORDER
BETA = CHRF.BETA
MIN_COVERAGE = 1e-6
"""Attention that a source token counts as having received at least, so that its logarithm is
finite.
"""
MIN_TIMES, MIN_TOKENS = 5, 20
"""Consecutive copies of an n-gram, and tokens in all of them, from which on it is a runaway
repetition.
"""


def coverage(weights: Array) -> float:
    """Coverage of a source: Σ over its tokens of log min(Σ over target tokens of attention (T, S),
    1); 0 if all read.

    Wu et al. 2016, equation 14, without its β.
    """
    return float(np.log(np.clip(weights.sum(0), MIN_COVERAGE, 1.0)).sum())


def mbr_utility(texts: Sequence[str], shares: Sequence[float]) -> list[float]:
    """Expected chrF of each text against all others: the utility of minimum Bayes risk (MBR)
    decoding.

    `shares` weight each text as a possible reference; a text is not compared with itself.
    """
    scores = _chrf(texts) * np.asarray(shares, np.float64)  # (K, K)
    np.fill_diagonal(scores, 0)
    return [float(score) for score in scores.sum(1)]


def _chrf(texts: Sequence[str]) -> Array:
    """Compute chrF (K, K) of each text against each other as its reference, as sacreBLEU does by
    default.

    Character n-grams of length one to six without spaces; precision and recall averaged over the
    lengths that both texts have; recall weighted twice. All pairs at once take a hundredth of the
    time.
    """
    joined = ["".join(text.split()) for text in texts]
    precision, recall, orders = np.zeros((3, len(texts), len(texts)))
    for n in range(1, ORDER + 1):
        ngrams = [
            Counter(text[i : i + n] for i in range(len(text) - n + 1))
            for text in joined
        ]
        totals = np.array([counter.total() for counter in ngrams])
        common = _common(ngrams)
        precision += common / np.maximum(totals, 1)[:, None]
        recall += common / np.maximum(totals, 1)
        orders += (totals[:, None] > 0) & (totals > 0)
    precision = precision / np.maximum(orders, 1)
    recall = recall / np.maximum(orders, 1)
    weighted = BETA**2 * precision + recall
    return (
        100 * (1 + BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
    )


def _common(ngrams: Sequence[Counter[str]]) -> Array:
    """Count the n-grams that each text has in common with each other (K, K).

    An n-gram of one text alone is in no pair: those that are left out would fill memory with the
    square of K.
    """
    texts = Counter(ngram for counter in ngrams for ngram in counter)
    columns = {
        ngram: column
        for column, ngram in enumerate(
            ngram for ngram, count in texts.items() if count > 1
        )
    }
    counts = np.zeros((len(ngrams), len(columns)), np.int32)
    rows = [
        [
            (columns[ngram], count)
            for ngram, count in counter.items()
            if ngram in columns
        ]
        for counter in ngrams
    ]
    for row, shared in zip(counts, rows, strict=True):
        for column, count in shared:
            row[column] = count
    common = np.zeros((len(ngrams), len(ngrams)), np.int64)
    for k, shared in enumerate(rows):
        own = [column for column, _ in shared]
        common[k] = np.minimum(counts[k, own], counts[:, own]).sum(1)
    return common


@dataclass(frozen=True)
class Repetition:
    """An n-gram of token ids that stands `times` times in a row, from position `start` on."""

    start: int
    ids: tuple[int, ...]
    times: int


def find_repetition(
    target: Sequence[int], source: Sequence[int] = ()
) -> Repetition | None:
    """Find the longest runaway repetition in a target; None if it is short, or its source repeats
    about as much.
    """
    repetition = _longest_repetition(target)
    if (
        repetition is None
        or repetition.times < MIN_TIMES
        or repetition.times * len(repetition.ids) < MIN_TOKENS
    ):
        return None
    in_source = _longest_repetition(source)
    return (
        None
        if in_source is not None and 2 * in_source.times >= repetition.times
        else repetition
    )


def _longest_repetition(ids: Sequence[int]) -> Repetition | None:
    """Find the repetition that takes up most tokens; of equals, that of the shorter n-gram."""
    longest = None
    most = 0
    row = np.asarray(ids)
    for period in range(1, len(row) // 2 + 1):
        same = np.concatenate([[False], row[period:] == row[:-period], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            times = (end - start) // period + 1
            if times > 1 and times * period > most:
                most = times * period
                longest = Repetition(
                    start, tuple(row[start : start + period].tolist()), times
                )
    return longest
