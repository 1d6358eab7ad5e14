"""Is one system better than another, or was it lucky with these pictures? (Efron 1979; Koehn 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import DataError

__all__ = ["DRAWS", "Difference", "paired_bootstrap"]

DRAWS = 10_000


@dataclass(frozen=True)
class Difference:
    """The means of two systems' scores, how far the second is above the first with the 95 % interval of that, and how
    often a difference as large would come from systems that are equally good (two-sided).
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
    """Compare two systems by their scores of the same things, which are drawn anew, with repetition, `draws` times."""
    if len(first) != len(second) or not len(first):
        raise DataError(f"{len(first)} scores of one system and {len(second)} of the other: wanted those of the same")
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    apart = other - one
    chance = np.random.Generator(np.random.PCG64(seed))
    means = np.array([apart[chance.integers(0, len(apart), len(apart))].mean() for _ in range(draws)])
    low, high = np.quantile(means, [0.025, 0.975])
    below, above = int((means <= 0).sum()), int((means >= 0).sum())
    p = min(1.0, 2 * (min(below, above) + 1) / (draws + 1))
    return Difference(float(one.mean()), float(other.mean()), float(apart.mean()), float(low), float(high), p, draws)
