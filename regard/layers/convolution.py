"""Gated 1-D convolutions with weight norm, as in convolutional sequence-to-sequence models.

Gehring et al. (2017).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from regard.common.monkey_patches import as_defined
from regard.common.shapes import Float, Tensor

SQRT_HALF = math.sqrt(0.5)
"""√½ keeps the variance of a sum of two equal-variance terms."""


@as_defined
class WeightNormLinear(nn.Module):
    """Linear layer with weight norm: each output has a length and a direction.

    Salimans and Kingma (2016). It is initialised so that the outputs have `gain` times the variance
    of the inputs before dropout (Gehring et al. 2017, section 3.5).
    """

    def __init__(
        self, inputs: int, outputs: int, dropout: float = 0.0, gain: float = 1.0
    ) -> None:
        super().__init__()
        deviation = math.sqrt(gain * (1 - dropout) / inputs)
        weight = torch.randn(outputs, inputs).mul_(deviation)
        self.direction = nn.Parameter(weight)
        self.length = nn.Parameter(weight.norm(dim=1))
        self.bias = nn.Parameter(torch.zeros(outputs))

    @property
    def weight(self) -> Float[Tensor, "Dv Dk"]:
        """Compute the weight matrix from lengths and directions."""
        scales: Tensor = self.length / self.direction.norm(dim=1)
        return self.direction * scales.unsqueeze(1)

    def forward(self, x: Float[Tensor, "N T Dk"]) -> Float[Tensor, "N T Dv"]:
        return F.linear(x, self.weight, self.bias)


@as_defined
class GatedConvolution(nn.Module):
    """Convolution with a gated linear unit (Dauphin et al. 2017).

    Half of the channels gate the other half. The caller pads: `forward` takes kernel_size − 1 more
    positions than it returns.
    """

    def __init__(self, size: int, kernel_size: int, dropout: float) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.linear = WeightNormLinear(kernel_size * size, 2 * size, dropout, gain=4.0)

    def forward(self, x: Float[Tensor, "N W D"]) -> Float[Tensor, "N T D"]:
        T = x.shape[1] - self.kernel_size + 1
        # (N, T, kernel_size · D)
        unfolded = torch.cat([x[:, i : i + T] for i in range(self.kernel_size)], -1)
        return F.glu(self.linear(unfolded), -1)
