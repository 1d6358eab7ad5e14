"""Where a piece stands, as waves: attention alone cannot tell one order of its entries from another."""

from __future__ import annotations

import math

import torch

from regard.shapes import Float, Int, Tensor

__all__ = ["sinusoids"]


def sinusoids(positions: Int[Tensor, "N T"], size: int) -> Float[Tensor, "N T D"]:
    """Waves of wavelengths from 2π to 10000·2π (Vaswani et al. 2017, section 3.5), sines first, then cosines.

    The paper puts them in turn; halves are the same up to the order of columns, and what other toolkits store.
    """
    half = (size + 1) // 2
    steps = torch.arange(half, dtype=torch.float32, device=positions.device)
    angles = positions.unsqueeze(-1) * torch.exp(steps * (-2 * math.log(10000) / size))  # (N, T, half)
    return torch.cat([angles.sin(), angles.cos()[..., : size // 2]], -1)
