"""One step of a recurrent network, with the input's share computed beforehand for all positions at once.

Gates stand in PyTorch's order and formulas are PyTorch's, so `torch.nn.RNN`, `GRU` and `LSTM` are oracles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from regard.shapes import Float, Tensor

__all__ = ["CELLS", "GRU", "LSTM", "Cell", "CellName", "Elman"]

CellName = Literal["gru", "lstm", "tanh"]
States = tuple[Tensor, ...]
Layer = Callable[[Tensor], Tensor]


class Cell(nn.Module):
    """A recurrent cell: `projected` is what the inputs say to the gates, `states` what the step before left."""

    gates: int
    states: int
    network: Callable[..., Any]  # the same over a whole sequence, fused

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.input = nn.Linear(input_size, self.gates * size)
        self.hidden = nn.Linear(size, self.gates * size)
        bound = 1 / math.sqrt(size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, projected: Float[Tensor, "N G"], states: States, hidden: Layer | None = None) -> States:
        """The states after; `hidden` stands for the layer of that name where the same one serves many steps."""
        said = (hidden or self.hidden)(states[0])
        return self.update(projected, said, states)

    @staticmethod
    def update(projected: Float[Tensor, "N G"], said: Float[Tensor, "N G"], states: States) -> States:
        """The states after, from what the inputs say to the gates and what the hidden state says to them."""
        raise NotImplementedError


class Elman(Cell):
    """tanh of what input and hidden state say (Elman 1990): no gates, and a short memory."""

    gates, states = 1, 1
    network = staticmethod(torch.rnn_tanh)

    @staticmethod
    def update(projected: Float[Tensor, "N G"], said: Float[Tensor, "N G"], states: States) -> States:
        return ((projected + said).to(states[0].dtype).tanh(),)


class GRU(Cell):
    """A gated recurrent unit (Cho et al. 2014); its one state is the hidden one."""

    gates, states = 3, 1
    network = staticmethod(torch.gru)

    @staticmethod
    def update(projected: Float[Tensor, "N G"], said: Float[Tensor, "N G"], states: States) -> States:
        return (_GRU.apply(projected, said, states[0]),)  # type: ignore[no-untyped-call]


class LSTM(Cell):
    """A long short-term memory (Hochreiter and Schmidhuber 1997); its states are the hidden one and the cell."""

    gates, states = 4, 2
    network = staticmethod(torch.lstm)

    @staticmethod
    def update(projected: Float[Tensor, "N G"], said: Float[Tensor, "N G"], states: States) -> States:
        h, c = states
        i, f, g, o = (projected + said).to(h.dtype).chunk(4, -1)
        c = torch.addcmul(torch.sigmoid(f) * c, torch.sigmoid(i), torch.tanh(g))
        return torch.sigmoid(o) * torch.tanh(c), c


class _GRU(torch.autograd.Function):
    """The gates of a GRU. Written out because autograd fills a tensor with zeros for each slice of one.

    The products before may be in bfloat16; what is carried from step to step stays as it is, in float32.
    """

    @staticmethod
    def forward(ctx: Any, projected: Tensor, said: Tensor, h: Tensor) -> Tensor:
        E, ctx.dtype = h.shape[-1], (projected.dtype, said.dtype)
        rz = torch.add(projected[:, : 2 * E], said[:, : 2 * E]).to(h.dtype).sigmoid_()
        r, z = rz[:, :E], rz[:, E:]
        carried = said[:, 2 * E :].to(h.dtype)
        n = torch.addcmul(projected[:, 2 * E :].to(h.dtype), r, carried).tanh_()
        ctx.save_for_backward(rz, n, carried, h)
        return torch.lerp(n, h, z)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        rz, n, carried, h = ctx.saved_tensors
        E = h.shape[-1]
        r, z = rz[:, :E], rz[:, E:]
        by_h = gradient * z
        by_input = torch.empty(len(h), 3 * E, dtype=h.dtype, device=h.device)
        by_n = torch.mul(gradient - by_h, torch.addcmul(torch.ones_like(n), n, n, value=-1), out=by_input[:, 2 * E :])
        torch.mul(by_n, carried, out=by_input[:, :E])
        torch.mul(gradient, h - n, out=by_input[:, E : 2 * E])
        by_input[:, : 2 * E].mul_(torch.addcmul(rz, rz, rz, value=-1))
        by_said = by_input.to(ctx.dtype[1], copy=True)
        by_said[:, 2 * E :] = by_n * r
        return by_input.to(ctx.dtype[0]), by_said, by_h


CELLS: dict[str, type[Cell]] = {"gru": GRU, "lstm": LSTM, "tanh": Elman}
