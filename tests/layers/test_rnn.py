"""A recurrent network step by step equals the fused one: outputs, final states, gradients of all
weights.
"""

from __future__ import annotations

import pytest
import torch
from helpers.tensor_equality import assert_all_close, assert_all_near, with_gradients
from torch import Tensor, nn

from regard.layers import rnn
from regard.layers.cells import CELLS
from regard.layers.rnn import (
    RNN_CLASSES,
    RNNOutput,
    _fused,
    _step_by_step,
    continue_rnn,
    run_rnn,
)

SIZE = 6
INPUTS = 5
EVERY_CELL = pytest.mark.parametrize("name", CELLS)
BIDIRECTIONAL = pytest.mark.parametrize("bidirectional", [False, True])


def network(name: str, bidirectional: bool = True) -> nn.RNNBase:
    module = RNN_CLASSES[name](
        INPUTS, SIZE, batch_first=True, bidirectional=bidirectional
    )
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5)
    return module


def inputs(lengths: tuple[int, ...] | None) -> tuple[Tensor, Tensor | None]:
    """Create random entries and their keep mask; None: three rows without padding."""
    if lengths is None:
        return torch.randn(3, 4, INPUTS, requires_grad=True), None
    keep = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.randn(*keep.shape, INPUTS, requires_grad=True), keep


def tensors_of(result: RNNOutput) -> list[Tensor]:
    outputs, states = result
    return [outputs, *states]


def test_every_cell_has_an_rnn_class() -> None:
    assert set(RNN_CLASSES) == set(CELLS)


@EVERY_CELL
@BIDIRECTIONAL
@pytest.mark.parametrize(
    ("lengths", "frozen"), [(None, True), ((5, 2, 3, 1), False), ((1,), False)]
)
def test_step_by_step_outputs_and_gradients_equal_fused(
    name: str, bidirectional: bool, lengths: tuple[int, ...] | None, frozen: bool
) -> None:
    net = network(name, bidirectional)
    x, keep = inputs(lengths)
    leaves = [x]
    if frozen:
        net.requires_grad_(False)
    else:
        leaves += net.parameters()
    stepwise = tensors_of(_step_by_step(net, CELLS[name], x, keep))
    fused = tensors_of(_fused(net, x, keep))
    B, S, _ = x.shape
    width = (1 + bidirectional) * SIZE
    shapes = [(B, S, width)] + [(B, width)] * CELLS[name].states

    assert [tensor.shape for tensor in stepwise] == shapes
    assert_all_close(with_gradients(stepwise, leaves), with_gradients(fused, leaves))

    for outputs in (stepwise[0], fused[0]):
        assert keep is None or not outputs[~keep].any()


# --- choice of the implementation


@EVERY_CELL
@pytest.mark.parametrize("lengths", [None, (5, 2, 1)])
def test_only_autocast_on_the_cpu_runs_step_by_step_which_is_close(
    name: str, lengths: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = network(name)
    x, keep = inputs(lengths)
    leaves = [x, *net.parameters()]
    results = []

    for autocast, unused in ((True, "_fused"), (False, "_step_by_step")):
        with (
            monkeypatch.context() as patch,
            torch.autocast("cpu", torch.bfloat16, enabled=autocast),
        ):
            patch.delattr(rnn, unused)
            outputs = tensors_of(run_rnn(net, CELLS[name], x, keep))
        results.append(with_gradients(outputs, leaves))
        assert all(tensor.dtype == torch.float32 for tensor in results[-1])

    assert_all_near(*results, 0.05)


# --- continuation from a state


@EVERY_CELL
@pytest.mark.parametrize("T", [1, 6])
@pytest.mark.parametrize("autocast", [False, True])
def test_one_call_equals_many_steps_of_a_cell(
    name: str, T: int, autocast: bool
) -> None:
    cell = CELLS[name](INPUTS, SIZE)
    x = torch.randn(3, T, INPUTS, requires_grad=True)
    initial = tuple(
        torch.randn(3, SIZE, requires_grad=True) for _ in range(cell.states)
    )
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        actual = tensors_of(continue_rnn(cell, x, initial))
    states = initial
    stepwise = []

    for step_input in x.unbind(1):
        states = cell(cell.input(step_input), states)
        stepwise.append(states[0])

    expected = [torch.stack(stepwise, 1), *states]
    leaves = [x, *initial, *cell.parameters()]
    rtol = 0.05 if autocast else 1e-5
    atol = 0.1 if autocast else 1e-5

    assert all(tensor.dtype == torch.float32 for tensor in actual)
    assert_all_close(
        with_gradients(actual, leaves), with_gradients(expected, leaves), rtol, atol
    )
