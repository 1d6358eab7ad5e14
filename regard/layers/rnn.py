"""A recurrent network over a whole sequence, in one direction or both: fused, or the same step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.layers.cells import Cell, CellName
from regard.layers.deferred_linear import DeferredLinear
from regard.shapes import Bool, Float, Tensor

__all__ = ["NETWORKS", "continue_rnn", "run_rnn"]

NETWORKS: dict[CellName, Callable[..., nn.RNNBase]] = {"gru": nn.GRU, "lstm": nn.LSTM, "tanh": nn.RNN}
_WEIGHTS = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
States = tuple[Tensor, ...]
Said = tuple[Float[Tensor, "B S D"], States]  # outputs, and the last states (B, D)


def run_rnn(
    network: nn.RNNBase, cell: type[Cell], x: Float[Tensor, "B S Dk"], keep: Bool[Tensor, "B S"] | None
) -> Said:
    """The outputs at every entry, zero where nothing may be read, and the last states, directions side by side.

    In float32, and on a GPU, by the fused network. A CPU has no fused one in bfloat16, but matrix products that are
    four times as fast as in float32: there it is run step by step.
    """
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        return _step_by_step(network, cell, x, keep)
    return _fused(network, x, keep)


def continue_rnn(cell: Cell, x: Float[Tensor, "N T Dk"], states: States) -> Said:
    """The outputs of a cell at T further positions, and its states after the last.

    Nothing is fed back from one position to the next but the states, so many positions are one call.
    """
    if x.shape[1] == 1:
        states = cell(cell.input(x[:, 0]), states)
        return states[0].unsqueeze(1), states
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        outputs, states = _loop(cell, cell.input(x).unbind(1), DeferredLinear.of(cell.hidden), states)
        return torch.stack(outputs, 1), states
    weights = (cell.input.weight, cell.hidden.weight, cell.input.bias, cell.hidden.bias)
    begun = [state.unsqueeze(0) for state in states]
    learns = torch.is_grad_enabled()  # cuDNN has a backward pass only then
    with torch.autocast(x.device.type, enabled=False):
        told = cell.network(
            x.float(), begun if len(begun) > 1 else begun[0], weights, True, 1, 0.0, learns, False, True
        )
    return told[0], tuple(state[0] for state in told[1:])


def _fused(network: nn.RNNBase, x: Tensor, keep: Tensor | None) -> Said:
    with torch.autocast(x.device.type, enabled=False):
        if keep is None:
            outputs, states = network(x.float())
        else:
            packed = pack_padded_sequence(x.float(), keep.sum(1).cpu(), batch_first=True, enforce_sorted=False)
            outputs, states = network(packed)
            outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
    states = states if isinstance(states, tuple) else (states,)
    return outputs, tuple(state.transpose(0, 1).flatten(1) for state in states)


def _step_by_step(network: nn.RNNBase, cell: type[Cell], x: Tensor, keep: Tensor | None) -> Said:
    said = [_one_way(network, "_l0", cell, x, keep)]
    if network.bidirectional:
        said.append(_one_way(network, "_l0_reverse", cell, x, keep))
    outputs = torch.cat([outputs for outputs, _ in said], -1)
    return outputs, tuple(torch.cat(states, -1) for states in zip(*(states for _, states in said), strict=True))


def _one_way(network: nn.RNNBase, way: str, cell: type[Cell], x: Tensor, keep: Tensor | None) -> Said:
    weight, bias, hidden_weight, hidden_bias = (getattr(network, name + way) for name in _WEIGHTS)
    backwards = way.endswith("reverse")
    projected = F.linear(x, weight, bias).unbind(1)
    keeps = None if keep is None else keep.unsqueeze(-1).unbind(1)
    if backwards:
        projected, keeps = projected[::-1], keeps and keeps[::-1]
    begun = tuple(hidden_weight.new_zeros(len(x), network.hidden_size) for _ in range(cell.states))
    outputs, states = _loop(cell, projected, DeferredLinear(hidden_weight, hidden_bias), begun, keeps)
    told = torch.stack(outputs[::-1] if backwards else outputs, 1)
    return told if keep is None else told * keep.unsqueeze(-1), states


def _loop(
    cell: Cell | type[Cell],
    projected: Sequence[Tensor],
    hidden: Callable[[Tensor], Tensor],
    states: States,
    keeps: Sequence[Tensor] | None = None,
) -> tuple[list[Tensor], States]:
    """The hidden state after each step, and all states after the last.

    Past its end, and before it backwards, a sentence's states stay as they are: its `keeps` (B, 1) are False there.
    """
    outputs = []
    for t, now in enumerate(projected):
        new = cell.update(now, hidden(states[0]), states)
        if keeps is not None:
            new = tuple(torch.where(keeps[t], a, b) for a, b in zip(new, states, strict=True))
        states = new
        outputs.append(states[0])
    return outputs, states
