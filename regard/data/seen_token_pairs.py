"""Bigrams of source tokens in the training data, to recognise lines that are unlike the text that a
model has learnt.

Text of a small grammar, such as the sample's, has some thousand different bigrams, and a line with
another bigram has words or forms that no training line has. Natural text has too many bigrams to be
stored, and an unseen one says little.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from regard.common.lazy import lazy_pattern

MOST_PAIRS = 8_192
"""Maximum number of bigrams of a filter; text with more has no filter."""
BITS = 12
"""Bits of the filter for each bigram."""
HASHES = 4
"""Bits that a bigram sets; about one in 150 unseen bigrams is taken for seen."""
_BASE64 = lazy_pattern(
    "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)"
)


@dataclass(frozen=True)
class SeenTokenPairs:
    """Bloom filter (Bloom 1970) of the bigrams of source ids in training.

    Raises ValueError for values that are no filter.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {
        "strict": False,
        "extra": "forbid",
    }
    pairs: str
    """The bits of the filter in base64; the lowest bit of a byte comes first."""
    most: int
    """Maximum number of unseen bigrams of a line that is like the training text."""

    def __post_init__(self) -> None:
        is_filter = len(self.pairs) <= 20_000 and _BASE64.fullmatch(self.pairs)
        if not is_filter or self.most < 0:
            raise ValueError("wanted `pairs` in base64, and `most` of 0 or more")

    @classmethod
    def learn(
        cls,
        training: Iterable[Sequence[int]],
        validation: Iterable[Sequence[int]],
        share: float,
    ) -> SeenTokenPairs | None:
        """Make the filter of these training lines of ids.

        `most` is set so that at most this share of the validation lines has more unseen bigrams.
        Returns None for text with more than `MOST_PAIRS` bigrams, or with none.
        """
        seen = set[tuple[int, int]]()
        for ids in training:
            seen.update(pairwise(ids))
            if len(seen) > MOST_PAIRS:
                return None
        if not seen:
            return None
        bits = bytearray(-(-len(seen) * BITS // 8))
        for first, second in seen:
            for index in _bit_indices(first, second, 8 * len(bits)):
                bits[index >> 3] |= 1 << (index & 7)
        pairs = base64.b64encode(bits).decode("ascii")
        counts = sorted(map(cls(pairs, 0).unseen, validation))
        most = counts[-1 - int(share * len(counts))] if counts else 0
        return cls(pairs, most)

    def unseen(self, ids: Sequence[int]) -> int:
        """Count the bigrams of a line that no training line has, except those with −1, a copy
        token.
        """
        bits = base64.b64decode(self.pairs)
        count = 0
        for first, second in pairwise(ids):
            if first >= 0 and second >= 0:
                indices = _bit_indices(first, second, 8 * len(bits))
                count += any(not bits[n >> 3] >> (n & 7) & 1 for n in indices)
        return count


def _bit_indices(first: int, second: int, size: int) -> Iterator[int]:
    """Yield the indices of the bits that a bigram sets; regard.js computes the same."""
    for number in range(HASHES):
        mixed = (
            first * 0x9E3779B1 + second * 0x85EBCA77 + number * 0xC2B2AE3D
        ) & 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 15) * 0x2C1B3C6D & 0xFFFFFFFF
        yield (mixed ^ mixed >> 13) % size
