"""Position-wise feed-forward network of a Transformer: ReLU, GELU, SiLU or SwiGLU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import nn

from regard.common.monkey_patches import as_defined
from regard.common.shapes import Float, Tensor

Activation = Literal["relu", "gelu", "silu", "swiglu"]


def swiglu(x: Float[Tensor, "N T D"]) -> Float[Tensor, "N T Dv"]:
    """Gate one half of each vector by the SiLU of the other (Shazeer 2020, equation 6)."""
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "swiglu": swiglu,
}


@as_defined
class FeedForward(nn.Module):
    """Widen, activate, narrow (Vaswani et al. 2017, equation 2).

    With `swiglu` the wide vector is twice as large, because half of it is the gate.
    """

    def __init__(self, size: int, inner: int, activation: Activation) -> None:
        super().__init__()
        self.widen = nn.Linear(size, 2 * inner if activation == "swiglu" else inner)
        self.narrow = nn.Linear(inner, size)
        self.activation = _ACTIVATIONS[activation]
        for layer in (self.widen, self.narrow):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "N T D"]) -> Float[Tensor, "N T D"]:
        return self.narrow(self.activation(self.widen(x)))  # type: ignore[no-any-return]
