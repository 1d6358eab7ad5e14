"""A recurrent network over a whole sequence, in one direction or both: fused, or the same step by step."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.layers.recurrent import Cell, CellName
from regard.layers.repeated import Repeated
from regard.shapes import Bool, Float, Tensor

__all__ = ["NETWORKS", "run"]

NETWORKS: dict[CellName, Callable[..., nn.RNNBase]] = {"gru": nn.GRU, "lstm": nn.LSTM}
_WEIGHTS = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
Said = tuple[Float[Tensor, "B S D"], tuple[Tensor, ...]]  # outputs, and the last states (B, D)


def run(network: nn.RNNBase, cell: type[Cell], x: Float[Tensor, "B S Dk"], keep: Bool[Tensor, "B S"] | None) -> Said:
    """The outputs at every entry, zero where nothing may be read, and the last states, directions side by side.

    In float32, and on a GPU, by the fused network. A CPU has no fused one in bfloat16, but matrix products that are
    four times as fast as in float32: there it is run step by step.
    """
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        return _step_by_step(network, cell, x, keep)
    return _fused(network, x, keep)


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
    hidden = Repeated(hidden_weight, hidden_bias)
    projected = F.linear(x, weight, bias).unbind(1)
    places = range(len(projected))
    states = tuple(hidden_weight.new_zeros(len(x), network.hidden_size) for _ in range(cell.states))
    outputs: dict[int, Tensor] = {}
    for t in reversed(places) if way.endswith("reverse") else places:
        new = cell.bend(projected[t], hidden(states[0]), states)
        if keep is None:
            states = new
        else:  # past its end, and before it backwards, a sentence's states stay as they are
            here = keep[:, t, None]
            states = tuple(torch.where(here, a, b) for a, b in zip(new, states, strict=True))
        outputs[t] = states[0]
    told = torch.stack([outputs[t] for t in places], 1)
    return told if keep is None else told * keep.unsqueeze(-1), states
