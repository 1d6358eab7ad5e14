"""Recurrent networks (RNN, GRU, LSTM) over a sequence, uni- or bidirectional: fused, or step by
step in bfloat16.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.common.shapes import Bool, Float, Tensor
from regard.layers.cells import Cell, CellName, States
from regard.layers.deferred_linear import DeferredLinear

RNN_CLASSES: dict[CellName, Callable[..., nn.RNNBase]] = {
    "gru": nn.GRU,
    "lstm": nn.LSTM,
    "tanh": nn.RNN,
}
# Cells keep their weights as linear layers; that cuDNN copies them into one block at each call is
# cheap.
warnings.filterwarnings(
    "ignore", "RNN module weights are not part of single contiguous chunk", UserWarning
)
_WEIGHTS = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
RNNOutput = tuple[Float[Tensor, "B S D"], States]  # outputs, and the last states (B, D)


def run_rnn(
    network: nn.RNNBase,
    cell: type[Cell],
    x: Float[Tensor, "B S Dk"],
    keep: Bool[Tensor, "B S"] | None,
) -> RNNOutput:
    """Return the outputs at every position, zero if hidden, and the last states, both directions
    concatenated.

    Uses the fused network in float32, and on a GPU. On a CPU there is none for bfloat16, whose
    matrix products are four times as fast as those in float32: there it runs step by step.
    """
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        return _step_by_step(network, cell, x, keep)
    return _fused(network, x, keep)


def continue_rnn(cell: Cell, x: Float[Tensor, "N T Dk"], states: States) -> RNNOutput:
    """Run a cell over T further positions; return its outputs and its last states.

    Nothing but the states is fed back from one position to the next, so all positions are one fused
    call.
    """
    if x.shape[1] == 1:
        states = cell(cell.input(x[:, 0]), states)
        return states[0].unsqueeze(1), states
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        outputs, states = _unroll(
            cell,
            cell.input(x).unbind(1),
            DeferredLinear.from_layer(cell.hidden),
            states,
        )
        return torch.stack(outputs, 1), states
    weights = (cell.input.weight, cell.hidden.weight, cell.input.bias, cell.hidden.bias)
    # cuDNN takes no strided states.
    initial = [state.unsqueeze(0).contiguous() for state in states]
    training = torch.is_grad_enabled()  # cuDNN has a backward pass only then
    with torch.autocast(x.device.type, enabled=False):
        outputs, *last = cell.fused(
            x.float(),
            initial if len(initial) > 1 else initial[0],
            weights,
            True,
            1,
            0.0,
            training,
            False,
            True,
        )
    return outputs, tuple(state[0] for state in last)


def _fused(network: nn.RNNBase, x: Tensor, keep: Tensor | None) -> RNNOutput:
    # cuDNN has no backward pass in eval mode, which attributions need.
    without_cudnn = x.is_cuda and torch.is_grad_enabled() and not network.training
    flags = (
        torch.backends.cudnn.flags(enabled=False) if without_cudnn else nullcontext()
    )
    with torch.autocast(x.device.type, enabled=False), flags:
        if keep is None:
            outputs, states = network(x.float())
        else:
            packed = pack_padded_sequence(
                x.float(), keep.sum(1).cpu(), batch_first=True, enforce_sorted=False
            )
            outputs, states = network(packed)
            outputs, _ = pad_packed_sequence(
                outputs, batch_first=True, total_length=x.shape[1]
            )
    states = states if isinstance(states, tuple) else (states,)
    return outputs, tuple(state.transpose(0, 1).flatten(1) for state in states)


def _step_by_step(
    network: nn.RNNBase, cell: type[Cell], x: Tensor, keep: Tensor | None
) -> RNNOutput:
    directions = [_run_direction(network, "_l0", cell, x, keep)]
    if network.bidirectional:
        directions.append(_run_direction(network, "_l0_reverse", cell, x, keep))
    outputs = torch.cat([outputs for outputs, _ in directions], -1)
    return outputs, tuple(
        torch.cat(states, -1)
        for states in zip(*(states for _, states in directions), strict=True)
    )


def _run_direction(
    network: nn.RNNBase, suffix: str, cell: type[Cell], x: Tensor, keep: Tensor | None
) -> RNNOutput:
    weight, bias, hidden_weight, hidden_bias = (
        getattr(network, name + suffix) for name in _WEIGHTS
    )
    order = slice(None, None, -1 if suffix.endswith("reverse") else 1)
    input_projs = F.linear(x, weight, bias).unbind(1)[order]
    keeps = None if keep is None else keep.unsqueeze(-1).unbind(1)[order]
    initial = tuple(
        hidden_weight.new_zeros(len(x), network.hidden_size) for _ in range(cell.states)
    )
    outputs, states = _unroll(
        cell, input_projs, DeferredLinear(hidden_weight, hidden_bias), initial, keeps
    )
    stacked = torch.stack(outputs[order], 1)
    return stacked if keep is None else stacked * keep.unsqueeze(-1), states


def _unroll(
    cell: Cell | type[Cell],
    input_projs: Sequence[Tensor],
    hidden_layer: Callable[[Tensor], Tensor],
    states: States,
    keeps: Sequence[Tensor] | None = None,
) -> tuple[list[Tensor], States]:
    """Return the hidden state after each step, and all states after the last.

    At hidden positions (`keeps` (B, 1) False) the states do not change: past the end, or before it
    backwards.
    """
    outputs = []
    for t, input_proj in enumerate(input_projs):
        new = cell.update(input_proj, hidden_layer(states[0]), states)
        if keeps is not None:
            new = tuple(
                torch.where(keeps[t], a, b) for a, b in zip(new, states, strict=True)
            )
        states = new
        outputs.append(states[0])
    return outputs, states
