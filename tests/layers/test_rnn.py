"""A recurrent network step by step equals the fused one: outputs, final states, gradients of all
weights.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.layers import rnn
from regard.layers.cells import CELLS
from regard.layers.rnn import RNN_CLASSES, _fused, _step_by_step, continue_rnn, run_rnn

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
SIZE = 6
INPUTS = 5
EVERY_RNN = pytest.mark.parametrize(
    ("name", "bidirectional"),
    [(name, bidirectional) for name in RNN_CLASSES for bidirectional in (False, True)],
)
LENGTHS = [None, (5, 5, 5), (5, 2, 3), (1, 4, 1), (1, 1), (1,)]


def network(name: str, bidirectional: bool = True) -> nn.RNNBase:
    module = RNN_CLASSES[name](INPUTS, SIZE, batch_first=True, bidirectional=bidirectional)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5)
    return module


def inputs(lengths: tuple[int, ...] | None) -> tuple[Tensor, Tensor | None]:
    """Create random entries and their keep mask; None: three rows without padding."""
    keep = None if lengths is None else torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    B, S = (3, 4) if keep is None else keep.shape
    return torch.randn(B, S, INPUTS, requires_grad=True), keep


def scalar_loss(result: tuple[Tensor, tuple[Tensor, ...]]) -> Tensor:
    """Compute a scalar that depends differently on every output and state."""
    generator = torch.Generator().manual_seed(7)
    parts = [(y * torch.randn(y.shape, generator=generator)).sum() for y in (result[0], *result[1])]
    return torch.stack(parts).sum()


def assert_same(actual: Any, expected: Any) -> None:
    for value, reference in zip(actual, expected, strict=True):
        torch.testing.assert_close(value, reference, **CLOSE)


def test_every_cell_has_an_rnn_class() -> None:
    assert set(RNN_CLASSES) == set(CELLS)


@EVERY_RNN
@pytest.mark.parametrize("lengths", LENGTHS)
def test_step_by_step_outputs_and_gradients_equal_fused(
    name: str, bidirectional: bool, lengths: tuple[int, ...] | None
) -> None:
    net, (x, keep) = network(name, bidirectional), inputs(lengths)
    leaves = [x, *net.parameters()]
    results = []
    for result in (_step_by_step(net, CELLS[name], x, keep), _fused(net, x, keep)):
        results.append([result[0], *result[1], *torch.autograd.grad(scalar_loss(result), leaves)])
    B, S, directions = *x.shape[:2], 1 + bidirectional
    assert results[0][0].shape == (B, S, directions * SIZE)
    assert [state.shape for state in result[1]] == [(B, directions * SIZE)] * CELLS[name].states
    assert_same(*results)


@EVERY_RNN
def test_outputs_are_zero_at_masked_entries(name: str, bidirectional: bool) -> None:
    net, (x, keep) = network(name, bidirectional), inputs((5, 2, 1))
    assert keep is not None
    for outputs, _ in (_step_by_step(net, CELLS[name], x, keep), _fused(net, x, keep)):
        assert bool(outputs[~keep].eq(0).all())
        assert bool(outputs[keep].abs().sum(-1).gt(0).all())


@EVERY_RNN
@pytest.mark.parametrize("filler", [1e4, float("nan")])
def test_masked_entries_do_not_change_the_output(
    name: str, bidirectional: bool, filler: float
) -> None:
    net, (x, keep) = network(name, bidirectional), inputs((5, 2, 1))
    assert keep is not None
    filled = x.detach().masked_fill(~keep[:, :, None], filler)
    actual = _step_by_step(net, CELLS[name], filled, keep)
    expected = _step_by_step(net, CELLS[name], x, keep)
    assert_same([actual[0], *actual[1]], [expected[0], *expected[1]])


@EVERY_RNN
def test_masked_entries_get_no_gradient_and_change_no_other_gradient(
    name: str, bidirectional: bool
) -> None:
    net, (x, keep) = network(name, bidirectional), inputs((5, 2, 1))
    assert keep is not None
    filled = x.detach().masked_fill(~keep[:, :, None], 100.0).requires_grad_()
    results = []
    for entries in (x, filled):
        result = _step_by_step(net, CELLS[name], entries, keep)
        by_entries, *rest = torch.autograd.grad(scalar_loss(result), [entries, *net.parameters()])
        assert bool(by_entries[~keep].eq(0).all())
        results.append([by_entries, *rest])
    assert_same(*results)


@EVERY_RNN
def test_sentence_in_a_batch_equals_the_sentence_alone(name: str, bidirectional: bool) -> None:
    net = network(name, bidirectional)
    lengths = (5, 1, 3)
    x, keep = inputs(lengths)
    outputs, states = _step_by_step(net, CELLS[name], x, keep)
    for row, length in enumerate(lengths):
        alone, final_states = _step_by_step(net, CELLS[name], x[row : row + 1, :length], None)
        assert_same([outputs[row : row + 1, :length]], [alone])
        assert_same([state[row : row + 1] for state in states], final_states)


@EVERY_RNN
def test_final_states_are_the_last_outputs_of_each_direction(
    name: str, bidirectional: bool
) -> None:
    net = network(name, bidirectional)
    lengths = (5, 1, 3)
    outputs, states = _step_by_step(net, CELLS[name], *inputs(lengths))
    for row, length in enumerate(lengths):
        assert torch.equal(states[0][row, :SIZE], outputs[row, length - 1, :SIZE])
        assert torch.equal(states[0][row, SIZE:], outputs[row, 0, SIZE:])


@EVERY_RNN
def test_frozen_network_passes_gradients_to_its_inputs(name: str, bidirectional: bool) -> None:
    net, (x, keep) = network(name, bidirectional).requires_grad_(False), inputs((5, 2, 1))
    results = [
        torch.autograd.grad(scalar_loss(result), [x])
        for result in (_step_by_step(net, CELLS[name], x, keep), _fused(net, x, keep))
    ]
    assert_same(*results)


# --- choice of the implementation


@EVERY_RNN
@pytest.mark.parametrize("lengths", [None, (5, 2, 1)])
def test_bfloat16_is_close_to_float32(
    name: str, bidirectional: bool, lengths: tuple[int, ...] | None
) -> None:
    net, (x, keep) = network(name, bidirectional), inputs(lengths)
    leaves = [x, *net.parameters()]
    results = []
    for autocast in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            result = run_rnn(net, CELLS[name], x, keep)
        assert all(tensor.dtype == torch.float32 for tensor in (result[0], *result[1])), (
            "outputs and states stay in float32"
        )
        results.append([result[0], *result[1], *torch.autograd.grad(scalar_loss(result), leaves)])
    for value, reference in zip(*results, strict=True):
        assert value.dtype == reference.dtype
        assert float((value - reference).detach().norm() / reference.detach().norm()) < 0.05


@pytest.mark.parametrize("autocast", [False, True])
def test_only_cpu_autocast_runs_step_by_step(
    monkeypatch: pytest.MonkeyPatch, autocast: bool
) -> None:
    called: list[str] = []
    for name in ("_fused", "_step_by_step"):
        original = getattr(rnn, name)
        monkeypatch.setattr(
            rnn,
            name,
            lambda *arguments, original=original, name=name: (
                called.append(name),
                original(*arguments),
            )[1],
        )
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        run_rnn(network("gru"), CELLS["gru"], *inputs(None))
    assert called == ["_step_by_step" if autocast else "_fused"]


# --- continuation from a state


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("T", [1, 2, 6])
@pytest.mark.parametrize("name", CELLS)
def test_one_call_equals_many_steps_of_a_cell(name: str, T: int, autocast: bool) -> None:
    cell = CELLS[name](INPUTS, SIZE)
    x = torch.randn(3, T, INPUTS, requires_grad=True)
    initial = tuple(torch.randn(3, SIZE, requires_grad=True) for _ in range(cell.states))
    leaves = [x, *initial, *cell.parameters()]
    results = []
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        outputs, states = continue_rnn(cell, x, initial)
    stepwise = []
    last_states = initial
    for step_input in x.unbind(1):
        last_states = cell(cell.input(step_input), last_states)
        stepwise.append(last_states[0])
    for result in ((outputs, states), (torch.stack(stepwise, 1), last_states)):
        assert result[0].dtype == torch.float32
        results.append([result[0], *result[1], *torch.autograd.grad(scalar_loss(result), leaves)])
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(
            actual, expected, **({"rtol": 0.05, "atol": 0.1} if autocast else CLOSE)
        )


@pytest.mark.parametrize("name", CELLS)
def test_cell_continues_from_any_state(name: str) -> None:
    cell = CELLS[name](INPUTS, SIZE)
    x = torch.randn(3, 6, INPUTS)
    initial = tuple(torch.randn(3, SIZE) for _ in range(cell.states))
    expected, last_states = continue_rnn(cell, x, initial)
    chunks = []
    states = initial
    for chunk in x.split([2, 1, 3], 1):
        outputs, states = continue_rnn(cell, chunk, states)
        chunks.append(outputs)
    assert_same([torch.cat(chunks, 1), *states], [expected, *last_states])
