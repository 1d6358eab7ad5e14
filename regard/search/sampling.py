"""Drawing the next piece by its probability, with random numbers that no other sentence can change."""

from __future__ import annotations

import numpy as np

from regard.search.hypothesis import SearchSettings
from regard.search.rules import Array

__all__ = ["draw", "uniform"]


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


def draw(choice: Array, chance: Array, settings: SearchSettings) -> Array:
    """A column for each row (N, k), drawn by the numbers given: where the sum of probabilities passes `chance`.

    Probabilities are those of `choice` / temperature; of them the top_k largest; of them the fewest that together have
    a share of top_p (Holtzman et al. 2020), at least one. −∞ is never drawn, unless a row holds nothing else.
    """
    columns = None
    scaled = choice / settings.temperature
    if settings.top_k is not None or settings.top_p is not None:
        columns = np.argsort(-scaled, axis=1, kind="stable")[:, : settings.top_k]
        scaled = np.take_along_axis(scaled, columns, 1)
    most = scaled.max(1, keepdims=True)
    shares = np.exp(scaled - np.where(most > -np.inf, most, 0))
    sums = shares.cumsum(1)
    if settings.top_p is not None:
        shares = shares * (sums - shares < settings.top_p * sums[:, -1:])
        sums = shares.cumsum(1)
    places = (sums <= chance[:, None] * sums[:, -1:]).sum(1)
    places = np.where(sums[:, -1] > 0, places, 0)
    return places if columns is None else columns[np.arange(len(columns)), places]
