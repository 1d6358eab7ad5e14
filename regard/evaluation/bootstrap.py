"""Paired bootstrap: is the difference between two systems on the same test set significant? (Efron 1979; Koehn 2004)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.common.errors import DataError

DRAWS = 10_000


@dataclass(frozen=True)
class Difference:
    """Mean scores of two systems, their difference (second − first) with its 95 % interval, and the two-sided p-value.

    `p`: how often a difference this large would come from equally good systems; `draws`: number of resamples.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p: float
    draws: int

    def __str__(self) -> str:
        least = 2 / (self.draws + 1)
        p = f"p < {least:.1g}" if self.p <= least else f"p = {self.p:.4f}"
        return f"{self.difference:+.2f} (95 % interval {self.low:+.2f} to {self.high:+.2f}), {p}".replace("-", "−")


def paired_bootstrap(
    first: Sequence[float], second: Sequence[float], draws: int = DRAWS, seed: int = 12345
) -> Difference:
    """Compare two systems by their scores of the same items, resampled with replacement `draws` times."""
    if len(first) != len(second) or not len(first):
        raise DataError(f"wanted scores of the same items, at least one; got {len(first)} and {len(second)} scores")
    first_scores, second_scores = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    differences = second_scores - first_scores
    rng, count = np.random.Generator(np.random.PCG64(seed)), len(differences)
    means = np.array([differences[rng.integers(0, count, count)].mean() for _ in range(draws)])
    low, high = np.quantile(means, [0.025, 0.975])
    below, above = int((means <= 0).sum()), int((means >= 0).sum())
    p = min(1.0, 2 * (min(below, above) + 1) / (draws + 1))
    mean = float(differences.mean())
    return Difference(float(first_scores.mean()), float(second_scores.mean()), mean, float(low), float(high), p, draws)
