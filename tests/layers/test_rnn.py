"""A recurrent network step by step equals the fused one: outputs, last states, gradients of all weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.layers import rnn
from regard.layers.cells import CELLS
from regard.layers.rnn import RNN_CLASSES, _fused, _step_by_step, continue_rnn, run_rnn

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
SIZE, INPUTS = 6, 5
EVERY = pytest.mark.parametrize(("name", "both"), [(name, both) for name in RNN_CLASSES for both in (False, True)])
LENGTHS = [None, (5, 5, 5), (5, 2, 3), (1, 4, 1), (1, 1), (1,)]


def network(name: str, both: bool = True) -> nn.RNNBase:
    made = RNN_CLASSES[name](INPUTS, SIZE, batch_first=True, bidirectional=both)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_(std=0.5)
    return made


def inputs(lengths: tuple[int, ...] | None) -> tuple[Tensor, Tensor | None]:
    """Random entries, and which of them may be read; None: all of three rows."""
    keep = None if lengths is None else torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    B, S = (3, 4) if keep is None else keep.shape
    return torch.randn(B, S, INPUTS, requires_grad=True), keep


def told(said: tuple[Tensor, tuple[Tensor, ...]]) -> Tensor:
    """One number in which all that is said counts, each number in its own way."""
    generator = torch.Generator().manual_seed(7)
    parts = [(y * torch.randn(y.shape, generator=generator)).sum() for y in (said[0], *said[1])]
    return torch.stack(parts).sum()


def assert_same(found: Any, wanted: Any) -> None:
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


def test_every_cell_has_its_network() -> None:
    assert set(RNN_CLASSES) == set(CELLS)


@EVERY
@pytest.mark.parametrize("lengths", LENGTHS)
def test_step_by_step_equals_fused_and_so_do_all_gradients(
    name: str, both: bool, lengths: tuple[int, ...] | None
) -> None:
    net, (x, keep) = network(name, both), inputs(lengths)
    learnt, results = [x, *net.parameters()], []
    for said in (_step_by_step(net, CELLS[name], x, keep), _fused(net, x, keep)):
        results.append([said[0], *said[1], *torch.autograd.grad(told(said), learnt)])
    B, S, directions = *x.shape[:2], 1 + both
    assert results[0][0].shape == (B, S, directions * SIZE)
    assert [state.shape for state in said[1]] == [(B, directions * SIZE)] * CELLS[name].states
    assert_same(*results)


@EVERY
def test_outputs_are_zero_where_nothing_may_be_read(name: str, both: bool) -> None:
    net, (x, keep) = network(name, both), inputs((5, 2, 1))
    assert keep is not None
    for outputs, _ in (_step_by_step(net, CELLS[name], x, keep), _fused(net, x, keep)):
        assert bool(outputs[~keep].eq(0).all())
        assert bool(outputs[keep].abs().sum(-1).gt(0).all())


@EVERY
@pytest.mark.parametrize("strange", [1e4, float("nan")])
def test_hidden_entries_change_nothing(name: str, both: bool, strange: float) -> None:
    net, (x, keep) = network(name, both), inputs((5, 2, 1))
    assert keep is not None
    other = x.detach().masked_fill(~keep[:, :, None], strange)
    found, wanted = _step_by_step(net, CELLS[name], other, keep), _step_by_step(net, CELLS[name], x, keep)
    assert_same([found[0], *found[1]], [wanted[0], *wanted[1]])


@EVERY
def test_hidden_entries_change_no_gradient_and_have_none(name: str, both: bool) -> None:
    net, (x, keep) = network(name, both), inputs((5, 2, 1))
    assert keep is not None
    other = x.detach().masked_fill(~keep[:, :, None], 100.0).requires_grad_()
    results = []
    for entries in (x, other):
        said = _step_by_step(net, CELLS[name], entries, keep)
        by_entries, *rest = torch.autograd.grad(told(said), [entries, *net.parameters()])
        assert bool(by_entries[~keep].eq(0).all())
        results.append([by_entries, *rest])
    assert_same(*results)


@EVERY
def test_a_sentence_alone_is_the_same_sentence_in_a_batch(name: str, both: bool) -> None:
    net, lengths = network(name, both), (5, 1, 3)
    x, keep = inputs(lengths)
    outputs, states = _step_by_step(net, CELLS[name], x, keep)
    for row, length in enumerate(lengths):
        alone, last = _step_by_step(net, CELLS[name], x[row : row + 1, :length], None)
        assert_same([outputs[row : row + 1, :length]], [alone])
        assert_same([state[row : row + 1] for state in states], last)


@EVERY
def test_the_last_states_are_the_outputs_where_each_direction_ends(name: str, both: bool) -> None:
    net, lengths = network(name, both), (5, 1, 3)
    outputs, states = _step_by_step(net, CELLS[name], *inputs(lengths))
    for row, length in enumerate(lengths):
        assert torch.equal(states[0][row, :SIZE], outputs[row, length - 1, :SIZE])
        assert torch.equal(states[0][row, SIZE:], outputs[row, 0, SIZE:])


@EVERY
def test_a_frozen_network_hands_gradients_to_its_inputs(name: str, both: bool) -> None:
    net, (x, keep) = network(name, both).requires_grad_(False), inputs((5, 2, 1))
    results = [
        torch.autograd.grad(told(said), [x])
        for said in (_step_by_step(net, CELLS[name], x, keep), _fused(net, x, keep))
    ]
    assert_same(*results)


# --- which of the two is run


@EVERY
@pytest.mark.parametrize("lengths", [None, (5, 2, 1)])
def test_bfloat16_is_close_to_float32(name: str, both: bool, lengths: tuple[int, ...] | None) -> None:
    net, (x, keep) = network(name, both), inputs(lengths)
    learnt, results = [x, *net.parameters()], []
    for autocast in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            said = run_rnn(net, CELLS[name], x, keep)
        assert all(part.dtype == torch.float32 for part in (said[0], *said[1])), "what is carried stays in float32"
        results.append([said[0], *said[1], *torch.autograd.grad(told(said), learnt)])
    for mine, other in zip(*results, strict=True):
        assert mine.dtype == other.dtype
        assert float((mine - other).detach().norm() / other.detach().norm()) < 0.05


@pytest.mark.parametrize("autocast", [False, True])
def test_only_autocast_on_a_cpu_goes_step_by_step(monkeypatch: pytest.MonkeyPatch, autocast: bool) -> None:
    taken: list[str] = []
    for name in ("_fused", "_step_by_step"):
        own = getattr(rnn, name)
        monkeypatch.setattr(rnn, name, lambda *given, own=own, name=name: (taken.append(name), own(*given))[1])
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        run_rnn(network("gru"), CELLS["gru"], *inputs(None))
    assert taken == ["_step_by_step" if autocast else "_fused"]


# --- a cell that goes on from where it stands


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("T", [1, 2, 6])
@pytest.mark.parametrize("name", CELLS)
def test_many_steps_of_a_cell_are_one_call(name: str, T: int, autocast: bool) -> None:
    cell, x = CELLS[name](INPUTS, SIZE), torch.randn(3, T, INPUTS, requires_grad=True)
    begun = tuple(torch.randn(3, SIZE, requires_grad=True) for _ in range(cell.states))
    learnt, results = [x, *begun, *cell.parameters()], []
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        outputs, states = continue_rnn(cell, x, begun)
    one_by_one, last = [], begun
    for now in x.unbind(1):
        last = cell(cell.input(now), last)
        one_by_one.append(last[0])
    for said in ((outputs, states), (torch.stack(one_by_one, 1), last)):
        assert said[0].dtype == torch.float32
        results.append([said[0], *said[1], *torch.autograd.grad(told(said), learnt)])
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted, **({"rtol": 0.05, "atol": 0.1} if autocast else CLOSE))


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_may_stop_and_go_on_anywhere(name: str) -> None:
    cell, x = CELLS[name](INPUTS, SIZE), torch.randn(3, 6, INPUTS)
    begun = tuple(torch.randn(3, SIZE) for _ in range(cell.states))
    wanted, last = continue_rnn(cell, x, begun)
    parts, states = [], begun
    for part in x.split([2, 1, 3], 1):
        outputs, states = continue_rnn(cell, part, states)
        parts.append(outputs)
    assert_same([torch.cat(parts, 1), *states], [wanted, *last])
