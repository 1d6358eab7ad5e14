"""Sampling: temperature, top-k and nucleus (top-p).

The random numbers of a sentence do not depend on the other sentences of its batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.common.shapes import Array
from regard.search.candidate_selection import stable_top_k
from regard.search.settings import SearchSettings

NUCLEUS = 512
"""Number of likeliest tokens that are sorted first; all are, if these have less than top_p."""
MIN_TEMPERATURE = 1e-30
"""Lower bound of the temperature, which avoids a division by zero and changes no samples."""


def source_key(ids: Sequence[int]) -> int:
    """Return the sampling key of a sentence: a hash of its token ids."""
    key = np.zeros(1, np.uint64)
    with np.errstate(over="ignore"):
        for token in ids:
            key = _splitmix64(key ^ np.uint64(token))
    return int(key[0])


def uniform(seed: int, keys: Array, lengths: Array, beams: int) -> Array:
    """Return a uniform random number in [0, 1) for each beam (B, K).

    It depends only on the seed, the sentence's key, its length so far and the index of the beam.
    The hash is the finaliser of SplitMix64 (Steele et al. 2014).
    """
    beam = np.arange(beams, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed_seed = _splitmix64(np.array([seed], np.uint64))
        mixed = _splitmix64(keys.astype(np.uint64) ^ mixed_seed)
        mixed = _splitmix64(mixed + lengths.astype(np.uint64))
        mixed = _splitmix64(mixed[:, None] + beam)
    numbers: Array = (mixed >> np.uint64(11)) * 2.0**-53
    return numbers


def _splitmix64(x: Array) -> Array:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = x ^ (x >> np.uint64(31))
    return mixed


def sample_columns(scores: Array, numbers: Array, settings: SearchSettings) -> Array:
    """Sample a column of each row of `scores` (N, k), by uniform random `numbers` (N,).

    Probabilities are the softmax of `scores` / temperature. The top_k largest are kept and, among
    these, the fewest whose sum is at least top_p (nucleus sampling, Holtzman et al. 2020), at least
    one. A score of −∞ is never drawn, unless its row has no other.
    """
    top_k = settings.top_k
    top_p = settings.top_p
    scaled = scores / max(settings.temperature, MIN_TEMPERATURE)
    highest = scaled.max(1, keepdims=True)
    # Probabilities that are not normalised.
    weights = np.exp(scaled - np.where(highest > -np.inf, highest, 0))
    if top_k is None and top_p is None:
        return _inverse_cdf(weights, numbers)

    columns = stable_top_k(scaled, top_k or NUCLEUS)
    kept = np.take_along_axis(weights, columns, 1)
    if top_p is not None:
        total = (kept if top_k else weights).sum(1, dtype=np.float64)
        nucleus = top_p * total[:, None]
        if (kept.sum(1, dtype=np.float64)[:, None] < nucleus).any():
            columns = stable_top_k(scaled, scaled.shape[1])
            kept = np.take_along_axis(weights, columns, 1)
        kept = np.where(kept.cumsum(1, np.float64) - kept < nucleus, kept, 0)
    return columns[np.arange(len(columns)), _inverse_cdf(kept, numbers)]


def _inverse_cdf(weights: Array, numbers: Array) -> Array:
    """Return the first column of each row at which the cumulative share exceeds its number."""
    sums = weights.cumsum(1, np.float64)
    columns = (sums <= numbers[:, None] * sums[:, -1:]).sum(1)
    return np.where(sums[:, -1] > 0, columns, 0)
