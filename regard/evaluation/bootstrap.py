"""Paired bootstrap test of two systems (Efron 1979; Koehn 2004), Student's interval over runs, and
Welch's interval of a difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, variance

import numpy as np

from regard.common.errors import DataError

DRAWS = 10_000
NORMAL = 1e4
"""Degrees of freedom from which on Student's t is taken to be the normal distribution."""


@dataclass(frozen=True)
class Difference:
    """Mean scores of two systems, and their difference (second − first) with its 95 % interval.

    `p` is the two-sided p-value: how often a difference this large would come from equally good
    systems. `draws` is the number of resamples.
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
        interval = f"(95 % interval {self.low:+.2f} to {self.high:+.2f})"
        return f"{self.difference:+.2f} {interval}, {p}".replace("-", "−")


def paired_bootstrap(
    first: Sequence[float],
    second: Sequence[float],
    draws: int = DRAWS,
    seed: int = 12345,
) -> Difference:
    """Compare two systems by their scores of the same items, resampled with replacement."""
    if len(first) != len(second) or not len(first):
        raise DataError(
            f"wanted scores of the same items, at least one; got {len(first)} and {len(second)} "
            "scores"
        )
    first_scores = np.asarray(first, dtype=np.float64)
    second_scores = np.asarray(second, dtype=np.float64)
    differences = second_scores - first_scores
    rng = np.random.Generator(np.random.PCG64(seed))
    count = len(differences)
    means = np.array(
        [differences[rng.integers(0, count, count)].mean() for _ in range(draws)]
    )
    low, high = np.quantile(means, [0.025, 0.975])
    below = int((means <= 0).sum())
    above = int((means >= 0).sum())
    p = min(1.0, 2 * (min(below, above) + 1) / (draws + 1))
    mean = float(differences.mean())
    return Difference(
        float(first_scores.mean()),
        float(second_scores.mean()),
        mean,
        float(low),
        float(high),
        p,
        draws,
    )


def student_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of values and the ends of Student's 95 % interval, which is empty for one
    value.
    """
    return interval_of_parts(fmean(values), [_variance_of_mean(values)])[:3]


def welch_interval(
    first: Sequence[float], second: Sequence[float]
) -> tuple[float, float, float, float]:
    """Return the mean of `second` minus that of `first`, the ends of its 95 % interval, and the
    two-sided p-value, by Welch's t test (1947).

    The values are independent, at least two of each, and their variances may differ.
    """
    parts = [_variance_of_mean(values) for values in (first, second)]
    return interval_of_parts(fmean(second) - fmean(first), parts)


def _variance_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the variance of the mean of values, with its degrees of freedom; 0 for one value."""
    count = len(values)
    if count == 1:
        return 0.0, 1.0
    return variance(values) / count, count - 1.0


def interval_of_parts(
    value: float, parts: Sequence[tuple[float, float]]
) -> tuple[float, float, float, float]:
    """Return a value, the ends of its 95 % interval, and the two-sided p-value.

    Its variance is the sum of independent `parts`, each with its degrees of freedom; those of the
    sum are Satterthwaite's (1946).
    """
    total = sum(part for part, _ in parts)
    if not total:
        return value, value, value, float(not value)
    weighted = sum(part * part / degrees for part, degrees in parts)
    degrees = min(total * total / weighted if weighted else math.inf, NORMAL)
    error = math.sqrt(total)
    half = student_quantile(degrees) * error
    p = max(0.0, 1 - 2 * _student_integral(abs(value) / error, degrees))
    return value, value - half, value + half, p


def _student_integral(end: float, degrees: float) -> float:
    """Integrate the density of Student's t distribution from 0 to `end` by Simpson's rule.

    The substitution t = √degrees · tan u makes the density a power of a cosine.
    """
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
    last = math.atan(end / math.sqrt(degrees))
    steps = 400
    values = [
        math.cos(last * step / steps) ** (degrees - 1) for step in range(steps + 1)
    ]
    simpson = values[0] + values[-1] + 4 * sum(values[1:-1:2]) + 2 * sum(values[2:-1:2])
    integral: float = scale / math.sqrt(math.pi) * simpson * last / steps / 3
    return integral


@cache
def student_quantile(degrees: float) -> float:
    """Return the 97.5 % quantile of Student's t distribution, by bisection of its integral."""
    low = 0.0
    high = 20.0
    for _ in range(60):
        middle = (low + high) / 2
        if _student_integral(middle, degrees) < 0.475:
            low = middle
        else:
            high = middle
    return (low + high) / 2
