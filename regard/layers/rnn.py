"""Recurrent networks (RNN, GRU, LSTM) over a sequence, unidirectional or bidirectional.

They run in PyTorch's fused kernels, or step by step in bfloat16 on a CPU.
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
# Cells keep their weights as linear layers. cuDNN copies these into one block at each call, which
# is cheap, but PyTorch warns of it.
warnings.filterwarnings(
    "ignore", "RNN module weights are not part of single contiguous chunk", UserWarning
)
_WEIGHTS = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
RNNOutput = tuple[Float[Tensor, "B S D"], States]
"""Outputs at all positions, and the last states (B, D)."""


def run_rnn(
    network: nn.RNNBase,
    cell: type[Cell],
    x: Float[Tensor, "B S Dk"],
    keep: Bool[Tensor, "B S"] | None,
) -> RNNOutput:
    """Return the outputs at all positions and the last states, both directions concatenated.

    Outputs at hidden positions are zero. On a CPU with autocast the network runs step by step in
    bfloat16: PyTorch has no fused kernel for it, but its matrix products are four times as fast as
    those in float32. In all other cases the fused network runs in float32.
    """
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        return _step_by_step(network, cell, x, keep)
    return _fused(network, x, keep)


def continue_rnn(cell: Cell, x: Float[Tensor, "N T Dk"], states: States) -> RNNOutput:
    """Run a cell over T further positions; return its outputs and its last states.

    Only the states are passed from one position to the next, so one fused call runs all positions.
    """
    if x.shape[1] == 1:
        states = cell(cell.input(x[:, 0]), states)
        return states[0].unsqueeze(1), states
    if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
        hidden_layer = DeferredLinear.from_layer(cell.hidden)
        input_projs = cell.input(x).unbind(1)
        output_list, states = _unroll(cell, input_projs, hidden_layer, states)
        return torch.stack(output_list, 1), states

    weights = (cell.input.weight, cell.hidden.weight, cell.input.bias, cell.hidden.bias)
    # cuDNN needs contiguous states.
    initial = [state.unsqueeze(0).contiguous() for state in states]
    # has_biases, num_layers, dropout, train, bidirectional, batch_first. cuDNN keeps what a
    # backward pass needs only if `train` is true.
    options = (True, 1, 0.0, torch.is_grad_enabled(), False, True)
    with torch.autocast(x.device.type, enabled=False):
        outputs, *last = cell.fused(
            x.float(), initial if len(initial) > 1 else initial[0], weights, *options
        )
    return outputs, tuple(state[0] for state in last)


def _fused(network: nn.RNNBase, x: Tensor, keep: Tensor | None) -> RNNOutput:
    # Attributions need gradients in eval mode, in which cuDNN has no backward pass.
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
    states_by_direction = [states for _, states in directions]
    last = tuple(
        torch.cat(states, -1) for states in zip(*states_by_direction, strict=True)
    )
    return outputs, last


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
    hidden_layer = DeferredLinear(hidden_weight, hidden_bias)
    outputs, states = _unroll(cell, input_projs, hidden_layer, initial, keeps)
    stacked = torch.stack(outputs[order], 1)
    if keep is not None:
        stacked = stacked * keep.unsqueeze(-1)
    return stacked, states


def _unroll(
    cell: Cell | type[Cell],
    input_projs: Sequence[Tensor],
    hidden_layer: Callable[[Tensor], Tensor],
    states: States,
    keeps: Sequence[Tensor] | None = None,
) -> tuple[list[Tensor], States]:
    """Return the hidden state after each step, and all states after the last step.

    `keeps` holds one mask (B, 1) for each step; a row whose mask is False keeps its states.
    """
    outputs = []
    for t, input_proj in enumerate(input_projs):
        new_states = cell.update(input_proj, hidden_layer(states[0]), states)
        if keeps is not None:
            new_states = tuple(
                torch.where(keeps[t], new, old)
                for new, old in zip(new_states, states, strict=True)
            )
        states = new_states
        outputs.append(states[0])
    return outputs, states
