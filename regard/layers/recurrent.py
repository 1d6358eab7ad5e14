"""One step of a recurrent network, with the input's share computed beforehand for all positions at once.

Gates stand in PyTorch's order and formulas are PyTorch's, so `torch.nn.GRU` and `torch.nn.LSTM` are oracles.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import nn

from regard.shapes import Float, Tensor

__all__ = ["CELLS", "GRU", "LSTM", "Cell", "CellName"]

CellName = Literal["gru", "lstm"]
States = tuple[Tensor, ...]


class Cell(nn.Module):
    """A recurrent cell: `projected` is what the inputs say to the gates, `states` what the step before left."""

    gates: int
    states: int

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.input = nn.Linear(input_size, self.gates * size)
        self.hidden = nn.Linear(size, self.gates * size)
        bound = 1 / math.sqrt(size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, projected: Float[Tensor, "N G"], states: States) -> States:
        raise NotImplementedError


class GRU(Cell):
    """A gated recurrent unit (Cho et al. 2014); its one state is the hidden one."""

    gates, states = 3, 1

    def forward(self, projected: Float[Tensor, "N G"], states: States) -> States:
        (h,) = states
        # The matrix products may be in bfloat16; what is carried from step to step stays in float32.
        from_hidden, projected = self.hidden(h).to(h.dtype), projected.to(h.dtype)
        rz = torch.sigmoid(projected[:, : 2 * self.size] + from_hidden[:, : 2 * self.size])
        r, z = rz.chunk(2, -1)
        n = torch.tanh(torch.addcmul(projected[:, 2 * self.size :], r, from_hidden[:, 2 * self.size :]))
        return (torch.lerp(n, h, z),)


class LSTM(Cell):
    """A long short-term memory (Hochreiter and Schmidhuber 1997); its states are the hidden one and the cell."""

    gates, states = 4, 2

    def forward(self, projected: Float[Tensor, "N G"], states: States) -> States:
        h, c = states
        i, f, g, o = (projected + self.hidden(h)).to(h.dtype).chunk(4, -1)
        c = torch.addcmul(torch.sigmoid(f) * c, torch.sigmoid(i), torch.tanh(g))
        return torch.sigmoid(o) * torch.tanh(c), c


CELLS: dict[str, type[Cell]] = {"gru": GRU, "lstm": LSTM}
