"""Where a piece stands: attention alone cannot tell one order of its entries from another."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from regard.shapes import Float, Int, Tensor

__all__ = ["GridPositions", "LearnedPositions", "SinusoidalPositions", "sinusoids"]


def sinusoids(positions: Int[Tensor, "N T"], size: int) -> Float[Tensor, "N T D"]:
    """Waves of wavelengths from 2π to 10000·2π (Vaswani et al. 2017, section 3.5), sines first, then cosines.

    The paper puts them in turn; halves are the same up to the order of columns, and what other toolkits store.
    """
    half = (size + 1) // 2
    steps = torch.arange(half, dtype=torch.float32, device=positions.device)
    angles = positions.unsqueeze(-1) * torch.exp(steps * (-2 * math.log(10000) / size))  # (N, T, half)
    return torch.cat([angles.sin(), angles.cos()[..., : size // 2]], -1)


class SinusoidalPositions(nn.Module):
    """Positions as waves: nothing is learnt, and there is no last one."""

    limit: int | None = None

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, positions: Int[Tensor, "N T"]) -> Float[Tensor, "N T D"]:
        return sinusoids(positions, self.size)


class LearnedPositions(nn.Module):
    """A learnt vector for each of the first `limit` positions; all that come after have the last one."""

    def __init__(self, limit: int, size: int) -> None:
        super().__init__()
        self.limit = limit
        self.weight = nn.Parameter(torch.randn(limit, size) / math.sqrt(size))

    def forward(self, positions: Int[Tensor, "N T"]) -> Float[Tensor, "N T D"]:
        return F.embedding(positions.clamp(max=self.limit - 1), self.weight)


class GridPositions(nn.Module):
    """Where a cell stands: half of the numbers say in which row, half in which column, so any size of grid fits."""

    def __init__(self, size: int, learned: bool, limit: int) -> None:
        super().__init__()
        sizes = (size // 2, size - size // 2)
        self.rows, self.columns = (LearnedPositions(limit, n) if learned else SinusoidalPositions(n) for n in sizes)

    def forward(self, grid: tuple[int, int], device: torch.device) -> Float[Tensor, "S D"]:
        """The vectors of all cells, row by row."""
        Y, X = grid
        down, across = (torch.arange(n, device=device)[None] for n in grid)
        rows = self.rows(down)[0].unsqueeze(1).expand(-1, X, -1)
        return torch.cat([rows, self.columns(across).expand(Y, -1, -1)], -1).flatten(0, 1)
