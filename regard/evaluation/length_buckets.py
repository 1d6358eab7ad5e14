"""chrF by source length, in buckets with bootstrap intervals.

It shows how models without attention degrade on long sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.chrf import CHRF

EDGES = (5, 10, 15, 20, 30, 40, 50, 60, 80, 120, 200)
DRAWS, SEED = 500, 12345  # bootstrap resamples, and sacreBLEU's seed


@dataclass(frozen=True)
class LengthBucket:
    """Sentences of `first` to `last` source words: their number, their chrF and its 95 %
    interval.
    """

    first: int
    last: int
    sentences: int
    chrf: float
    low: float
    high: float


def by_length(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[Sequence[str]]
) -> list[LengthBucket]:
    """Compute chrF by source length, with intervals by bootstrap resampling (Koehn 2004).

    A bucket needs two sentences; words are separated by spaces.
    """
    lengths = [len(source.split()) for source in sources]
    buckets = []
    for first, last in length_ranges(max(lengths, default=0)):
        rows = [i for i, length in enumerate(lengths) if first <= length <= last]
        if len(rows) < 2:
            continue
        bucket_outputs = [outputs[i] for i in rows]
        bucket_references = [[lines[i] for i in rows] for lines in references]
        chrf, low, high = _with_interval(bucket_outputs, bucket_references)
        buckets.append(LengthBucket(first, last, len(rows), chrf, low, high))
    return buckets


def length_ranges(longest: int) -> list[tuple[int, int]]:
    """Return the first and last length of each bucket."""
    edges = [*(edge for edge in EDGES if edge < longest), max(longest, 1)]
    return list(zip([1, *(edge + 1 for edge in edges[:-1])], edges, strict=True))


def _with_interval(
    outputs: list[str], references: list[list[str]]
) -> tuple[float, float, float]:
    """Return chrF and its interval by sacreBLEU's method, limited to 0 to 100.

    sacreBLEU's own function fails if all lines of a resample are empty, and its symmetric interval
    may exceed the scale.
    """
    metric = CHRF()
    counts = metric._extract_corpus_statistics(outputs, references)
    rows = np.random.default_rng(SEED).choice(
        len(counts), size=(DRAWS, len(counts)), replace=True
    )
    sums = np.array(counts, dtype=np.float32)[rows].sum(1)
    scores = np.sort(
        [
            float(metric._compute_score_from_stats(statistics).score)
            for statistics in sums
        ]
    )
    mean = float(scores.mean())
    half = float(scores[DRAWS - DRAWS // 40 - 1] - scores[DRAWS // 40]) / 2
    low = min(100.0, max(0.0, mean - half))
    high = min(100.0, max(0.0, mean + half))
    return float(metric._aggregate_and_compute(counts).score), low, high
