"""Drawing the next piece by its probability, with random numbers that no other sentence can change."""

from __future__ import annotations

import numpy as np

from regard.search.hypothesis import SearchSettings
from regard.search.rules import Array
from regard.search.selection import stable_top_k

__all__ = ["draw", "uniform"]

SOME = 512
"""So many of the likeliest pieces nearly always have the share of top_p; sorting all takes long."""


def uniform(seed: int, keys: Array, length: Array, beams: int) -> Array:
    """Numbers in [0, 1) for each beam (A, K), by nothing but seed, the sentence's key, the beam and the length so far.

    The hash is the finaliser of SplitMix64 (Steele et al. 2014).
    """
    beam = np.arange(beams, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = _mixed(keys.astype(np.uint64) ^ _mixed(np.array([seed], np.uint64)))
        mixed = _mixed(mixed + length.astype(np.uint64))
        mixed = _mixed(mixed[:, None] + beam)
    numbers: Array = (mixed >> np.uint64(11)) * 2.0**-53
    return numbers


def _mixed(x: Array) -> Array:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = x ^ (x >> np.uint64(31))
    return mixed


COLDEST = 1e-30
"""Nothing colder can be told from it, and single precision would divide by zero."""


def draw(choice: Array, chance: Array, settings: SearchSettings) -> Array:
    """A column for each row (N, k), drawn by the numbers given: where the sum of probabilities passes `chance`.

    Probabilities are those of `choice` / temperature; of them the top_k largest; of them the fewest that together have
    a share of top_p (Holtzman et al. 2020), at least one. −∞ is never drawn, unless a row holds nothing else.
    """
    top_k, top_p = settings.top_k, settings.top_p
    scaled = choice / max(settings.temperature, COLDEST)
    most = scaled.max(1, keepdims=True)
    shares = np.exp(scaled - np.where(most > -np.inf, most, 0))
    if top_k is None and top_p is None:
        return _drawn(shares, chance)
    columns = stable_top_k(scaled, top_k or SOME)
    kept = np.take_along_axis(shares, columns, 1)
    if top_p is not None:
        least = top_p * (kept if top_k else shares).sum(1, dtype=np.float64)[:, None]
        if (kept.sum(1, dtype=np.float64)[:, None] < least).any():
            columns = stable_top_k(scaled, scaled.shape[1])
            kept = np.take_along_axis(shares, columns, 1)
        kept = np.where(kept.cumsum(1, np.float64) - kept < least, kept, 0)
    return columns[np.arange(len(columns)), _drawn(kept, chance)]


def _drawn(shares: Array, chance: Array) -> Array:
    """The first column of each row where the sum so far is more than `chance` of the whole."""
    sums = shares.cumsum(1, np.float64)
    places = (sums <= chance[:, None] * sums[:, -1:]).sum(1)
    return np.where(sums[:, -1] > 0, places, 0)
