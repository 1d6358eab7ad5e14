"""Recurrent cells: one step of a GRU, an LSTM or an Elman RNN.

The caller projects the inputs of all positions at once. Gate order and formulas are PyTorch's, so
that tests can compare with `torch.nn.RNN`, `GRU` and `LSTM`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from regard.common.monkey_patches import as_defined
from regard.common.shapes import Float, Tensor

CellName = Literal["gru", "lstm", "tanh"]
Gates = Float[Tensor, "N G"]
"""A projection to the gates."""
States = tuple[Tensor, ...]


@as_defined
class Cell(nn.Module):
    """Recurrent cell with gates of total size G = `gates` · `size`.

    Its states are (h,), or (h, c) for an LSTM. `input_proj` and `hidden_proj` are the projections
    of the input and of the previous hidden state to the gates.
    """

    gates: int
    states: int
    fused: Callable[..., tuple[Tensor, ...]]  # PyTorch's kernel for a whole sequence

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.input = nn.Linear(input_size, self.gates * size)
        self.hidden = nn.Linear(size, self.gates * size)
        bound = 1 / math.sqrt(size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(
        self,
        input_proj: Gates,
        states: States,
        hidden_layer: Callable[[Tensor], Tensor] | None = None,
    ) -> States:
        """Return the next states.

        `hidden_layer` replaces `self.hidden`; inside a loop it is a `DeferredLinear`.
        """
        hidden_proj = (hidden_layer or self.hidden)(states[0])
        return self.update(input_proj, hidden_proj, states)

    @staticmethod
    def update(input_proj: Gates, hidden_proj: Gates, states: States) -> States:
        """Compute the next states from both projections to the gates."""
        raise NotImplementedError


@as_defined
class Elman(Cell):
    """Elman network (Elman 1990): tanh of the sum of both projections, without gates."""

    gates = 1
    states = 1
    fused = staticmethod(torch.rnn_tanh)

    @staticmethod
    def update(input_proj: Gates, hidden_proj: Gates, states: States) -> States:
        return ((input_proj + hidden_proj).to(states[0].dtype).tanh(),)


@as_defined
class GRU(Cell):
    """Gated recurrent unit (Cho et al. 2014) with the single state h."""

    gates = 3
    states = 1
    fused = staticmethod(torch.gru)

    @staticmethod
    def update(input_proj: Gates, hidden_proj: Gates, states: States) -> States:
        return (_GRU.apply(input_proj, hidden_proj, states[0]),)  # type: ignore[no-untyped-call]


@as_defined
class LSTM(Cell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997) with the states h and c."""

    gates = 4
    states = 2
    fused = staticmethod(torch.lstm)

    @staticmethod
    def update(input_proj: Gates, hidden_proj: Gates, states: States) -> States:
        h, c = states
        i, f, g, o = (input_proj + hidden_proj).to(h.dtype).chunk(4, -1)
        c = torch.addcmul(torch.sigmoid(f) * c, torch.sigmoid(i), torch.tanh(g))
        return torch.sigmoid(o) * torch.tanh(c), c


class _GRU(torch.autograd.Function):
    """GRU update from the gates r and z and the candidate n, with a backward written by hand.

    Autograd would fill a tensor with zeros for each slice. The projections may be in bfloat16; the
    state h stays in float32.
    """

    @staticmethod
    def forward(ctx: Any, input_proj: Tensor, hidden_proj: Tensor, h: Tensor) -> Tensor:
        E = h.shape[-1]
        ctx.dtype = (input_proj.dtype, hidden_proj.dtype)
        rz = torch.add(input_proj[:, : 2 * E], hidden_proj[:, : 2 * E])
        rz = rz.to(h.dtype).sigmoid_()
        r = rz[:, :E]
        z = rz[:, E:]
        hidden_n = hidden_proj[:, 2 * E :].to(h.dtype)
        n = torch.addcmul(input_proj[:, 2 * E :].to(h.dtype), r, hidden_n).tanh_()
        ctx.save_for_backward(rz, n, hidden_n, h)
        return torch.lerp(n, h, z)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rz, n, hidden_n, h = ctx.saved_tensors
        E = h.shape[-1]
        r = rz[:, :E]
        z = rz[:, E:]
        grad_h = gradient * z

        # The gradients of r, z and n are written into slices of one tensor.
        grad_input = torch.empty(len(h), 3 * E, dtype=h.dtype, device=h.device)
        tanh_slope = torch.addcmul(torch.ones_like(n), n, n, value=-1)
        grad_n = torch.mul(gradient - grad_h, tanh_slope, out=grad_input[:, 2 * E :])
        torch.mul(grad_n, hidden_n, out=grad_input[:, :E])
        torch.mul(gradient, h - n, out=grad_input[:, E : 2 * E])
        sigmoid_slope = torch.addcmul(rz, rz, rz, value=-1)
        grad_input[:, : 2 * E].mul_(sigmoid_slope)

        grad_hidden = grad_input.to(ctx.dtype[1], copy=True)
        grad_hidden[:, 2 * E :] = grad_n * r
        return grad_input.to(ctx.dtype[0]), grad_hidden, grad_h


CELLS: dict[str, type[Cell]] = {"gru": GRU, "lstm": LSTM, "tanh": Elman}
