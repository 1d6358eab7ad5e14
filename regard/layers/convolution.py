"""Convolutions over a sequence as in Gehring et al. 2017: weights as lengths and directions, and gates."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from regard.shapes import Float, Tensor

__all__ = ["SQRT_HALF", "GatedConvolution", "WeightNormLinear"]

SQRT_HALF = math.sqrt(0.5)
"""The sum of two things that vary alike varies as much as each of them, times this."""


class WeightNormLinear(nn.Module):
    """A linear layer whose weights to each output are a length and a direction (Salimans and Kingma 2016).

    What comes out varies `gain` times as much as what went in before dropout (Gehring et al. 2017, section 3.5).
    """

    def __init__(self, inputs: int, outputs: int, dropout: float = 0.0, gain: float = 1.0) -> None:
        super().__init__()
        weight = torch.randn(outputs, inputs) * math.sqrt(gain * (1 - dropout) / inputs)
        self.direction, self.length = nn.Parameter(weight), nn.Parameter(weight.norm(dim=1))
        self.bias = nn.Parameter(torch.zeros(outputs))

    @property
    def weight(self) -> Float[Tensor, "Dv Dk"]:
        """The matrix that lengths and directions make."""
        scales: Tensor = self.length / self.direction.norm(dim=1)
        return self.direction * scales.unsqueeze(1)

    def forward(self, x: Float[Tensor, "N T Dk"]) -> Float[Tensor, "N T Dv"]:
        return F.linear(x, self.weight, self.bias)


class GatedConvolution(nn.Module):
    """Each position from `width` neighbours, half of what comes out gating the other half (Dauphin et al. 2017).

    `forward` takes width − 1 positions more than it gives: the caller says what stands before and after.
    """

    def __init__(self, size: int, width: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.linear = WeightNormLinear(width * size, 2 * size, dropout, gain=4.0)

    def forward(self, x: Float[Tensor, "N W D"]) -> Float[Tensor, "N T D"]:
        T = x.shape[1] - self.width + 1
        near = torch.cat([x[:, i : i + T] for i in range(self.width)], -1)  # (N, T, width · D)
        return F.glu(self.linear(near), -1)
