"""Positions that self-attention sees: rotary embeddings (RoPE) and linear biases (ALiBi).

Those that are added to the embeddings are in `regard.layers.positional_encoding`.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from regard.attention.kv_cache import Memory
from regard.common.errors import ConfigurationError
from regard.common.monkey_patches import as_defined
from regard.common.shapes import Float, Int, Tensor

BASE = 10_000.0
"""Base of the wavelengths of rotary positions."""


@as_defined
class AttentionPositions(nn.Module):
    """Base of positions that self-attention sees, for `heads` heads of `size` numbers.

    Each self-attention has its own. Subclasses define `rotate`, `bias`, or both.
    """

    has_bias = False

    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        self.heads = heads
        self.size = size

    def rotate(
        self,
        vectors: Float[Tensor, "R H T E"],
        positions: Int[Tensor, "#R T"],  # noqa: ARG002
    ) -> Float[Tensor, "R H T E"]:
        """Transform queries or keys by their positions."""
        return vectors

    def bias(
        self, queries: Int[Tensor, "#R T"], entries: Int[Tensor, "#R S"]
    ) -> Float[Tensor, "#R H T S"]:
        """Return what is added to the scores; a class that defines it sets `has_bias`."""
        raise NotImplementedError


@as_defined
class RotaryPositions(AttentionPositions):
    """Rotary position embedding (Su et al. 2021, section 3.2.2).

    Number i of the first half of a vector and number i of the second half are one pair, as in other
    toolkits; the paper pairs neighbours, which differs only in the order of the numbers.
    """

    def __init__(self, heads: int, size: int) -> None:
        super().__init__(heads, size)
        if size % 2:
            raise ConfigurationError(
                f"rotary positions turn pairs of numbers, and a head has {size}: choose a size "
                "that is an even multiple of the heads"
            )

    def rotate(
        self, vectors: Float[Tensor, "R H T E"], positions: Int[Tensor, "#R T"]
    ) -> Float[Tensor, "R H T E"]:
        half = self.size // 2
        steps = torch.arange(half, dtype=torch.float32, device=vectors.device)
        angles = positions[:, None, :, None] * torch.exp(
            steps * (-math.log(BASE) / half)
        )
        cos, sin = angles.cos(), angles.sin()
        first, second = torch.split(vectors.float(), half, -1)
        turned = [first * cos - second * sin, second * cos + first * sin]
        return torch.cat(turned, -1).to(vectors.dtype)


@as_defined
class AlibiPositions(AttentionPositions):
    """Attention with linear biases (Press et al. 2022): −m · distance, with a slope m per head.

    In an encoder the distance counts in both directions.
    """

    has_bias = True

    def bias(
        self, queries: Int[Tensor, "#R T"], entries: Int[Tensor, "#R S"]
    ) -> Float[Tensor, "#R H T S"]:
        distances = (queries[:, :, None] - entries[:, None]).abs()
        slopes = torch.tensor(alibi_slopes(self.heads), device=queries.device)
        return -slopes[:, None, None] * distances[:, None]


def alibi_slopes(heads: int) -> list[float]:
    """Return the slope of each head: a geometric sequence that ends at 2⁻⁸.

    If the number of heads is no power of two, every other slope of the next sequence follows, as in
    the published code.
    """
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    between = [2 ** (-8 * (2 * i + 1) / (2 * power)) for i in range(heads - power)]
    return slopes + between


def entry_positions(memory: Memory) -> Int[Tensor, "#R S"]:
    """Return the position of each entry; hidden entries do not count."""
    if memory.keep is None:
        return torch.arange(memory.entries, device=memory.keys.device)[None]
    return memory.keep.cumsum(1) - 1
