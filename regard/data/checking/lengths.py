"""Usual lengths of translations, learnt from pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.checking.lexicon import Floats
from regard.data.pairs import Pair

BUCKETS = 8
"""Groups of equally many pairs by their length, each with its own usual ratio."""
LEAST_DEVIATION = 0.12
"""Least deviation of a logarithm of a ratio of lengths."""
_ADDED = 8.0
"""Characters that are added to lengths, since short texts vary more."""


@dataclass(frozen=True)
class Lengths:
    """Usual lengths of translations: by the logarithm of the mean length, the median of the
    logarithm of the ratio, and its deviations below and above.
    """

    edges: Floats  # of the buckets
    middles: Floats
    below: Floats
    above: Floats

    @classmethod
    def learn(cls, pairs: Sequence[Pair]) -> Lengths:
        """Learn from pairs of which no side is empty."""
        size, ratio = _sizes(pairs)
        edges = np.quantile(size, np.linspace(0, 1, BUCKETS + 1))[1:-1]
        buckets = np.searchsorted(edges, size)
        quantiles = []
        for bucket in range(BUCKETS):
            own = ratio[buckets == bucket]
            quantiles.append(
                np.quantile(own if len(own) > 20 else ratio, (0.16, 0.5, 0.84))
            )
        low, middle, high = np.array(quantiles).T
        return cls(
            edges,
            middle,
            np.maximum(middle - low, LEAST_DEVIATION),
            np.maximum(high - middle, LEAST_DEVIATION),
        )

    def deviations(self, pairs: Sequence[Pair]) -> Floats:
        """Return for each pair by how many deviations its target is longer, or shorter (below 0),
        than usual.
        """
        size, ratio = _sizes(pairs)
        bucket = np.searchsorted(self.edges, size)
        difference = ratio - self.middles[bucket]
        scale = np.where(difference < 0, self.below[bucket], self.above[bucket])
        return difference / scale


def _sizes(pairs: Sequence[Pair]) -> tuple[Floats, Floats]:
    """Return the logarithms of the mean length of each pair, and of the ratio of its sides."""
    lengths = np.array([(len(pair.source), len(pair.target)) for pair in pairs])
    sources, targets = lengths.reshape(-1, 2).T.astype(np.float64) + _ADDED
    return np.log(sources + targets), np.log(targets / sources)
