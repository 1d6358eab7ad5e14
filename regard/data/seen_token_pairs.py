"""Pairs of neighbouring tokens that training has seen: a line with others is unlike the text that a
model has learnt.

A small closed world, such as the sample's grammar, has some thousand pairs, and a line with another
one has words or forms that no training line has. Natural text has too many to be kept, and an
unseen pair there says little.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from regard.common.lazy import lazy_pattern

MOST_PAIRS = 8_192
"""Pairs that are kept at most; of text with more, none is."""
BITS, HASHES = 12, 4
"""Bits of the filter for each pair, and how many of them a pair sets: one in 300 unseen pairs
passes for seen.
"""
_BASE64 = lazy_pattern(
    "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)"
)


@dataclass(frozen=True)
class SeenTokenPairs:
    """A Bloom filter (Bloom 1970) of the pairs of source ids in training, and how many unseen ones
    a line may have.

    `pairs`: its bits, the lowest of a byte first, in base64. `most`: unseen pairs at most. Raises
    ValueError else.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {
        "strict": False,
        "extra": "forbid",
    }
    pairs: str
    most: int

    def __post_init__(self) -> None:
        if not (
            _BASE64.fullmatch(self.pairs)
            and len(self.pairs) <= 20_000
            and self.most >= 0
        ):
            raise ValueError("wanted `pairs` in base64, and `most` of 0 or more")

    @classmethod
    def learn(
        cls,
        training: Iterable[Sequence[int]],
        validation: Iterable[Sequence[int]],
        share: float,
    ) -> SeenTokenPairs | None:
        """Return the filter of these lines of ids; of validation lines a share at most has too many
        unseen pairs.

        None for text with more than `MOST_PAIRS` pairs, or with none.
        """
        seen = set[tuple[int, int]]()
        for ids in training:
            seen.update(pairwise(ids))
            if len(seen) > MOST_PAIRS:
                return None
        if not seen:
            return None
        bits = bytearray(-(-len(seen) * BITS // 8))
        for n in (n for pair in seen for n in _bit_indices(*pair, 8 * len(bits))):
            bits[n >> 3] |= 1 << (n & 7)
        filled = cls(base64.b64encode(bits).decode("ascii"), 0)
        counts = sorted(map(filled.unseen, validation))
        return cls(filled.pairs, counts[-1 - int(share * len(counts))] if counts else 0)

    def unseen(self, ids: Sequence[int]) -> int:
        """Return how many pairs of neighbours no line of training has; those with −1, a copy token,
        do not count.
        """
        bits = base64.b64decode(self.pairs)
        pairs = (pair for pair in pairwise(ids) if min(pair) >= 0)
        size = 8 * len(bits)
        return sum(
            any(not bits[n >> 3] >> (n & 7) & 1 for n in _bit_indices(*pair, size))
            for pair in pairs
        )


def _bit_indices(first: int, second: int, size: int) -> Iterator[int]:
    """Return the bits that a pair sets; regard.js computes the same."""
    for number in range(HASHES):
        mixed = (
            first * 0x9E3779B1 + second * 0x85EBCA77 + number * 0xC2B2AE3D
        ) & 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 15) * 0x2C1B3C6D & 0xFFFFFFFF
        yield (mixed ^ mixed >> 13) % size
