"""Rerank hypotheses by coverage penalty or minimum Bayes risk (MBR), and detect repetition."""

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
"""Lower bound of a source token's coverage, which keeps its logarithm finite."""
MIN_TIMES = 5
"""Fewest consecutive copies of an n-gram that are a runaway repetition."""
MIN_TOKENS = 20
"""Fewest tokens of a runaway repetition, in all its copies."""


def coverage(weights: Array) -> float:
    """Return the coverage of a source by attention weights (T, S).

    It is the sum over source tokens of log min(c, 1), where c is a token's attention summed over
    target tokens (Wu et al. 2016, equation 14, without its β); 0 if all are attended to.
    """
    return float(np.log(np.clip(weights.sum(0), MIN_COVERAGE, 1.0)).sum())


def mbr_utility(texts: Sequence[str], shares: Sequence[float]) -> list[float]:
    """Return the expected chrF of each text, the utility of minimum Bayes risk (MBR) decoding.

    All other texts are its references, weighted by `shares`.
    """
    scores = _chrf(texts) * np.asarray(shares, np.float64)  # (K, K)
    np.fill_diagonal(scores, 0)
    return [float(score) for score in scores.sum(1)]


def _chrf(texts: Sequence[str]) -> Array:
    """Compute chrF (K, K) of each text with each other text as its reference.

    The result is that of sacreBLEU's defaults: character n-grams of one to six characters without
    spaces, precision and recall averaged over the orders that both texts have, and recall weighted
    by β = 2. Computing all pairs at once takes a hundredth of sacreBLEU's time.
    """
    joined = ["".join(text.split()) for text in texts]
    precision, recall, orders = np.zeros((3, len(texts), len(texts)))
    for n in range(1, ORDER + 1):
        ngrams = [
            Counter(text[i : i + n] for i in range(len(text) - n + 1))
            for text in joined
        ]
        totals = np.array([counter.total() for counter in ngrams])
        common = _common_counts(ngrams)
        precision += common / np.maximum(totals, 1)[:, None]
        recall += common / np.maximum(totals, 1)
        orders += (totals[:, None] > 0) & (totals > 0)

    precision = precision / np.maximum(orders, 1)
    recall = recall / np.maximum(orders, 1)
    denominator = BETA**2 * precision + recall
    denominator = np.where(denominator > 0, denominator, 1)
    return 100 * (1 + BETA**2) * precision * recall / denominator


def _common_counts(ngrams: Sequence[Counter[str]]) -> Array:
    """Count the n-grams that each text has in common with each other text (K, K).

    N-grams of a single text are left out, because their table would grow with the square of K.
    """
    texts_with = Counter(ngram for counter in ngrams for ngram in counter)
    shared = [ngram for ngram, count in texts_with.items() if count > 1]
    columns = {ngram: column for column, ngram in enumerate(shared)}
    counts = np.zeros((len(ngrams), len(columns)), np.int32)
    text_columns = []
    for k, counter in enumerate(ngrams):
        present = [ngram for ngram in counter if ngram in columns]
        text_columns.append([columns[ngram] for ngram in present])
        counts[k, text_columns[k]] = [counter[ngram] for ngram in present]

    common = np.zeros((len(ngrams), len(ngrams)), np.int64)
    for k, present_columns in enumerate(text_columns):
        of_text = counts[k, present_columns]
        common[k] = np.minimum(of_text, counts[:, present_columns]).sum(1)
    return common


@dataclass(frozen=True)
class Repetition:
    """An n-gram of token ids that occurs `times` times in succession from position `start`."""

    start: int
    ids: tuple[int, ...]
    times: int


def find_repetition(
    target: Sequence[int], source: Sequence[int] = ()
) -> Repetition | None:
    """Find the longest runaway repetition in a target.

    Returns None if there is none, or if the source has a repetition of half as many times or more.
    """
    repetition = _longest_repetition(target)
    if repetition is None or repetition.times < MIN_TIMES:
        return None
    if repetition.times * len(repetition.ids) < MIN_TOKENS:
        return None
    in_source = _longest_repetition(source)
    if in_source is not None and 2 * in_source.times >= repetition.times:
        return None
    return repetition


def _longest_repetition(ids: Sequence[int]) -> Repetition | None:
    """Find the repetition of the most tokens; among equals, the one of the shorter n-gram."""
    longest = None
    most = 0
    row = np.asarray(ids)
    for period in range(1, len(row) // 2 + 1):
        # Runs of positions whose token occurs again one period later.
        same = np.concatenate([[False], row[period:] == row[:-period], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])
        for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            times = (end - start) // period + 1
            if times > 1 and times * period > most:
                most = times * period
                ngram = tuple(row[start : start + period].tolist())
                longest = Repetition(start, ngram, times)
    return longest
