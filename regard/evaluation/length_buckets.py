"""Quality by length of the source: where a model without attention falls, and others hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.chrf import CHRF

__all__ = ["Bucket", "by_length"]

EDGES = (5, 10, 15, 20, 30, 40, 50, 60, 80, 120, 200)
DRAWS, SEED = 500, 12345  # samples of the bootstrap, and sacreBLEU's seed


@dataclass(frozen=True)
class Bucket:
    """Sentences of `first` to `last` source words: how many, their chrF, and its 95 % interval."""

    first: int
    last: int
    sentences: int
    chrf: float
    low: float
    high: float


def by_length(sources: Sequence[str], outputs: Sequence[str], references: Sequence[Sequence[str]]) -> list[Bucket]:
    """chrF of sentences of like length, with intervals by bootstrap resampling (Koehn 2004; sacreBLEU's seed).

    A bucket needs two sentences; words are what stands between spaces.
    """
    lengths = [len(source.split()) for source in sources]
    longest = max(lengths, default=0)
    edges = [*(edge for edge in EDGES if edge < longest), longest]
    found, first = [], 1
    for last in edges:
        rows = [i for i, length in enumerate(lengths) if first <= length <= last]
        if len(rows) > 1:
            chosen = [[lines[i] for i in rows] for lines in references]
            found.append(Bucket(first, last, len(rows), *_with_interval([outputs[i] for i in rows], chosen)))
        first = last + 1
    return found


def _with_interval(outputs: list[str], references: list[list[str]]) -> tuple[float, float, float]:
    """chrF and its interval, as sacreBLEU draws it; its own function fails where a draw has nothing but empty sides."""
    metric = CHRF()
    counts = metric._extract_corpus_statistics(outputs, references)
    rows = np.random.default_rng(SEED).choice(len(counts), size=(DRAWS, len(counts)), replace=True)
    sums = np.array(counts, dtype=np.float32)[rows].sum(1)
    scores = np.sort([float(metric._compute_score_from_stats(some).score) for some in sums])
    mean, half = float(scores.mean()), float(scores[DRAWS - DRAWS // 40 - 1] - scores[DRAWS // 40]) / 2
    return float(metric._aggregate_and_compute(counts).score), mean - half, mean + half
