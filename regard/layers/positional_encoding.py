"""Positional embeddings: sinusoidal, learned and 2-D.

Attention alone cannot tell the order of its entries.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from regard.common.monkey_patches import as_defined
from regard.common.shapes import Float, Int, Tensor


def sinusoids(
    positions: Int[Tensor, "N T"] | Float[Tensor, "N T"], size: int
) -> Float[Tensor, "N T D"]:
    """Compute sinusoids of wavelengths from 2π to 10000·2π (Vaswani et al. 2017, section 3.5).

    All sines come before all cosines, as in other toolkits; the paper interleaves them, which
    differs only in the order of the columns.
    """
    half = (size + 1) // 2
    steps = torch.arange(half, dtype=torch.float32, device=positions.device)
    # (N, T, half)
    angles = positions.unsqueeze(-1) * torch.exp(steps * (-2 * math.log(10000) / size))
    return torch.cat([angles.sin(), angles.cos()[..., : size // 2]], -1)


def interleaved(size: int) -> list[int]:
    """Return the column of `sinusoids` for each column of the paper, which interleaves them."""
    half = (size + 1) // 2
    return [column // 2 + (half if column % 2 else 0) for column in range(size)]


@as_defined
class PositionEmbedding(nn.Module):
    """Base of positional embeddings, which are added to the embeddings of tokens.

    `max_positions` is the number of positions that it distinguishes; None: any.
    """

    max_positions: int | None = None

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    @classmethod
    def of(cls, size: int, max_positions: int) -> PositionEmbedding:  # noqa: ARG003
        """Create the embedding of a model of this size; `max_positions` is a setting of it."""
        return cls(size)

    def forward(self, positions: Int[Tensor, "N T"]) -> Float[Tensor, "N T D"]:
        """Return the vector of each position."""
        raise NotImplementedError


@as_defined
class SinusoidalPositions(PositionEmbedding):
    """Sinusoidal positional embedding, without parameters and without a last position."""

    def forward(self, positions: Int[Tensor, "N T"]) -> Float[Tensor, "N T D"]:
        return sinusoids(positions, self.size)


@as_defined
class LearnedPositions(PositionEmbedding):
    """Learned positional embedding of `max_positions` positions; later ones share the last."""

    max_positions: int

    def __init__(self, max_positions: int, size: int) -> None:
        super().__init__(size)
        self.max_positions = max_positions
        self.weight = nn.Parameter(
            torch.randn(max_positions, size).div_(math.sqrt(size))
        )

    @classmethod
    def of(cls, size: int, max_positions: int) -> LearnedPositions:
        return cls(max_positions, size)

    def forward(self, positions: Int[Tensor, "N T"]) -> Float[Tensor, "N T D"]:
        return F.embedding(positions.clamp(max=self.max_positions - 1), self.weight)


class GridPositions(nn.Module):
    """2-D positional embedding of image grids of any size.

    Half of each vector encodes the row, half the column.
    """

    def __init__(self, size: int, learned: bool, max_positions: int) -> None:
        super().__init__()
        sizes = (size // 2, size - size // 2)
        self.rows, self.columns = (
            LearnedPositions(max_positions, half)
            if learned
            else SinusoidalPositions(half)
            for half in sizes
        )

    def forward(
        self, grid: tuple[int, int], device: torch.device
    ) -> Float[Tensor, "S D"]:
        """Return the vectors of all cells, row by row."""
        Y, X = grid
        row_vectors = self.rows(torch.arange(Y, device=device)[None])[0]
        column_vectors = self.columns(torch.arange(X, device=device)[None])
        # (Y, X, size of a half)
        rows = row_vectors.unsqueeze(1).expand(-1, X, -1)
        columns = column_vectors.expand(Y, -1, -1)
        return torch.cat([rows, columns], -1).flatten(0, 1)
