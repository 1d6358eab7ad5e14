"""Positional embeddings, sinusoidal, learned and 2-D: attention alone cannot tell the order of its
entries.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from regard.common.monkey_patches import as_defined
from regard.common.shapes import Float, Int, Tensor


def sinusoids(positions: Int[Tensor, "N T"], size: int) -> Float[Tensor, "N T D"]:
    """Compute sinusoids of wavelengths from 2π to 10000·2π (Vaswani et al. 2017, section 3.5),
    sines before cosines.

    The paper interleaves them; halves are the same up to the order of columns, and are what other
    toolkits store.
    """
    half = (size + 1) // 2
    steps = torch.arange(half, dtype=torch.float32, device=positions.device)
    # (N, T, half)
    angles = positions.unsqueeze(-1) * torch.exp(steps * (-2 * math.log(10000) / size))
    return torch.cat([angles.sin(), angles.cos()[..., : size // 2]], -1)


def interleaved(size: int) -> list[int]:
    """Return which column of `sinusoids` each column of the paper is: sine, cosine, sine, cosine
    and so on.
    """
    half = (size + 1) // 2
    return [column // 2 + (half if column % 2 else 0) for column in range(size)]


@as_defined
class SinusoidalPositions(nn.Module):
    """Sinusoidal positional embedding: no parameters, and no last position."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, positions: Int[Tensor, "N T"]) -> Float[Tensor, "N T D"]:
        return sinusoids(positions, self.size)


@as_defined
class LearnedPositions(nn.Module):
    """Learned positional embedding of the first `max_positions` positions; later ones share the
    last vector.
    """

    def __init__(self, max_positions: int, size: int) -> None:
        super().__init__()
        self.max_positions = max_positions
        self.weight = nn.Parameter(
            torch.randn(max_positions, size).div_(math.sqrt(size))
        )

    def forward(self, positions: Int[Tensor, "N T"]) -> Float[Tensor, "N T D"]:
        return F.embedding(positions.clamp(max=self.max_positions - 1), self.weight)


class GridPositions(nn.Module):
    """2-D positional embedding of image grids of any size: half of each vector encodes the row,
    half the column.
    """

    def __init__(self, size: int, learned: bool, max_positions: int) -> None:
        super().__init__()
        sizes = (size // 2, size - size // 2)
        self.rows, self.columns = (
            LearnedPositions(max_positions, n) if learned else SinusoidalPositions(n)
            for n in sizes
        )

    def forward(
        self, grid: tuple[int, int], device: torch.device
    ) -> Float[Tensor, "S D"]:
        """Return the vectors of all cells, row by row."""
        Y, X = grid
        down, across = (torch.arange(n, device=device)[None] for n in grid)
        rows = self.rows(down)[0].unsqueeze(1).expand(-1, X, -1)
        return torch.cat([rows, self.columns(across).expand(Y, -1, -1)], -1).flatten(
            0, 1
        )
