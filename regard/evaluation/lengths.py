"""Quality by length of the source: where a model without attention falls, and others hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.chrf import CHRF

__all__ = ["Bucket", "by_length"]

EDGES = (5, 10, 15, 20, 30, 40, 50, 60, 80, 120, 200)
DRAWS = 500  # samples of the bootstrap


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
            result = CHRF().corpus_score([outputs[i] for i in rows], chosen, n_bootstrap=DRAWS)
            mean, half = float(result._mean), float(result._ci)
            found.append(Bucket(first, last, len(rows), float(result.score), mean - half, mean + half))
        first = last + 1
    return found
