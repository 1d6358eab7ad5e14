"""Pairs of neighbouring tokens that training has seen: a line with others is unlike the text that a model has learnt.

A small closed world, such as the sample's grammar, has some thousand pairs, and a line with another one has words or
forms that no training line has. Natural text has too many to be kept, and an unseen pair there says little.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from pydantic import Field

from regard.common.settings import Settings

MOST_PAIRS = 8_192
"""Pairs that are kept at most; of text with more, none is."""
BITS, HASHES = 12, 4
"""Bits of the filter for each pair, and how many of them a pair sets: one in 300 unseen pairs passes for seen."""


class Familiar(Settings):
    """A Bloom filter (Bloom 1970) of the pairs of source ids in training, and how many unseen ones a line may have."""

    pairs: str = Field(
        min_length=4,
        max_length=20_000,
        pattern="^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        description="the bits, eight in a byte from the lowest, in base64",
    )
    most: int = Field(ge=0, description="unseen pairs of a line at most")

    @classmethod
    def learn(
        cls, training: Iterable[Sequence[int]], validation: Iterable[Sequence[int]], share: float
    ) -> Familiar | None:
        """Return the filter of these lines of ids; of validation lines a share at most has too many unseen pairs.

        None for text with more than `MOST_PAIRS` pairs, or with none.
        """
        seen = set[tuple[int, int]]()
        for ids in training:
            seen.update(pairwise(ids))
            if len(seen) > MOST_PAIRS:
                return None
        if not seen:
            return None
        bits = np.zeros(-(-len(seen) * BITS // 8) * 8, bool)
        bits[[bit for pair in seen for bit in _bit_indices(*pair, len(bits))]] = True
        packed = np.packbits(bits, bitorder="little").tobytes()
        filled = cls(pairs=base64.b64encode(packed).decode("ascii"), most=0)
        counts = sorted(map(filled.unseen, validation))
        return filled.with_values(most=counts[-1 - int(share * len(counts))] if counts else 0)

    def unseen(self, ids: Sequence[int]) -> int:
        """Return how many pairs of neighbours no line of training has; those with −1, a copy token, do not count."""
        bits = base64.b64decode(self.pairs)
        size, pairs = 8 * len(bits), (pair for pair in pairwise(ids) if min(pair) >= 0)
        return sum(any(not bits[n >> 3] >> (n & 7) & 1 for n in _bit_indices(*pair, size)) for pair in pairs)


def _bit_indices(first: int, second: int, size: int) -> Iterator[int]:
    """Return the bits that a pair sets; regard.js computes the same."""
    for number in range(HASHES):
        mixed = (first * 0x9E3779B1 + second * 0x85EBCA77 + number * 0xC2B2AE3D) & 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 15) * 0x2C1B3C6D & 0xFFFFFFFF
        yield (mixed ^ mixed >> 13) % size
