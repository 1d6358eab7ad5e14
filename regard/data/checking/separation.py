"""The score that separates pairs from sides that do not belong together."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MOST_BLAMED = 0.01
"""Largest share of good pairs that may be called unrelated."""
FEWEST_SCORED = 150
"""Pairs with a known score below which nothing is said, since chance decides."""


def separating_score(own: Floats, random: Floats) -> tuple[float, float]:
    """Return the score below which the sides of a pair are unrelated, and the median score of the
    pairs, from the scores of pairs and of sides that were drawn at random; NaN is unknown. Both
    are −∞ if too few are known.

    The first finds 98 % of the random pairs, or fewer if good pairs would be blamed: those below
    the median of random pairs are unrelated, and few times as many are above it. Where hardly any
    pair scores above it, it is in the middle of that gap.
    """
    own, random = (np.sort(scores[~np.isnan(scores)]) for scores in (own, random))
    if min(len(own), len(random)) < FEWEST_SCORED:
        return -math.inf, -math.inf
    shares = np.linspace(0.5, 0.98, 49)  # of the random pairs that are found
    candidates = np.quantile(random, shares)
    usual = float(np.median(own))
    if usual <= candidates[-1]:
        return float(candidates[-1]), usual
    blamed = np.searchsorted(own, candidates) / len(own)
    most = blamed[0] + max(MOST_BLAMED, 4 * blamed[0])
    best = np.flatnonzero(blamed <= most)[-1]
    above = np.quantile(own, min(1, blamed[best] + MOST_BLAMED))
    return float(candidates[best] + above) / 2, usual
