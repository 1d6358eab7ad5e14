"""Print how often the intervals of breakdowns contain the true difference of two equal systems.

The score of a sentence is drawn from normal distributions: a part of the run, a part of the
sentence in that system, and a part of both. The 95 % intervals should contain 0 in 95 % of cases;
beside them stands the percentile bootstrap that resamples runs as well as sentences.

    python benchmarks/interval_coverage.py
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from regard.comparison.breakdowns import Metric, interval, resample

CASES = 1000
SENTENCES = 60
DEVIATIONS = ((1, 0, 0), (1, 0, 8), (0.5, 8, 8), (0, 8, 8))
"""Standard deviations between runs, between sentences, and of one run on one sentence."""
Array = npt.NDArray[np.float64]


def mean_score(sums: Array) -> Array:
    """Return the mean of scores from their sum."""
    return sums[..., 0] / SENTENCES


METRIC = Metric("mean", mean_score, np.inf)


def contains(rng: np.random.Generator, runs: int, case: tuple[float, ...]) -> Array:
    """Draw two systems; return whether the interval and the percentile bootstrap contain 0."""
    scores = []
    means = []
    for _ in range(2):
        table = rng.normal(size=(runs, 1)) * case[0]
        table = table + rng.normal(size=(1, SENTENCES)) * case[1]
        table = table + rng.normal(size=(runs, SENTENCES)) * case[2]
        scores.append(resample(table[..., None], METRIC))
        resamples = scores[-1][:, 1:]
        drawn = rng.integers(0, runs, (runs, resamples.shape[1]))
        means.append(np.take_along_axis(resamples, drawn, 0).mean(0))
    _, low, high = interval(*scores)
    ends = np.percentile(means[0] - means[1], [2.5, 97.5])
    return np.array([low <= 0 <= high, ends[0] <= 0 <= ends[1]])


def main() -> None:
    """Print a row for each number of runs and each case."""
    print("runs  deviations       interval  percentile bootstrap")
    for runs in (2, 3, 5):
        for case in DEVIATIONS:
            rng = np.random.default_rng(1)
            shares = sum(contains(rng, runs, case) for _ in range(CASES)) / CASES
            print(
                f"{runs:4}  {case!s:15}  {shares[0]:8.1%}  {shares[1]:8.1%}", flush=True
            )


if __name__ == "__main__":
    main()
