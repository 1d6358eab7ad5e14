"""Recurrent cells: a step equals one of PyTorch's cell, and hand-written gradients of the gates
those of the formula.
"""

from __future__ import annotations

import pytest
import torch
from helpers.tensor_equality import assert_all_close, assert_all_near, with_gradients
from torch import Tensor, nn

from regard.layers.cells import CELLS

TORCH = {"gru": nn.GRUCell, "lstm": nn.LSTMCell, "tanh": nn.RNNCell}
EVERY_CELL = pytest.mark.parametrize("name", CELLS)


def gru(input_proj: Tensor, hidden_proj: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    r, z, _ = (input_proj + hidden_proj).sigmoid().chunk(3, -1)
    n = torch.tanh(input_proj.chunk(3, -1)[2] + r * hidden_proj.chunk(3, -1)[2])
    return ((1 - z) * n + z * h,)


def lstm(
    input_proj: Tensor, hidden_proj: Tensor, h: Tensor, c: Tensor
) -> tuple[Tensor, ...]:
    i, f, g, o = (input_proj + hidden_proj).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def tanh(input_proj: Tensor, hidden_proj: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    return ((input_proj + hidden_proj).tanh(),)


FORMULAS = {"gru": gru, "lstm": lstm, "tanh": tanh}


def inputs(name: str, N: int = 4, size: int = 5) -> list[Tensor]:
    """Create the input projection, the hidden projection and the states."""
    cell = CELLS[name]
    widths = [cell.gates * size] * 2 + [size] * cell.states
    return [torch.randn(N, width).requires_grad_() for width in widths]


def update(name: str, tensors: list[Tensor]) -> tuple[Tensor, ...]:
    return CELLS[name].update(tensors[0], tensors[1], tuple(tensors[2:]))


def test_every_cell_has_a_formula_and_a_pytorch_cell() -> None:
    assert set(CELLS) == set(TORCH) == set(FORMULAS)


@EVERY_CELL
def test_cell_and_gradients_equal_torch(name: str) -> None:
    cell = CELLS[name](5, 7)
    theirs = TORCH[name](5, 7)
    theirs.load_state_dict(
        {
            "weight_ih": cell.input.weight,
            "bias_ih": cell.input.bias,
            "weight_hh": cell.hidden.weight,
            "bias_hh": cell.hidden.bias,
        }
    )
    x = torch.randn(4, 5, requires_grad=True)
    states = tuple(torch.randn(4, 7, requires_grad=True) for _ in range(cell.states))
    actual = cell(cell.input(x), states)
    expected = theirs(x, states if name == "lstm" else states[0])
    if isinstance(expected, Tensor):
        expected = (expected,)
    leaves = [x, *states]
    assert_all_close(with_gradients(actual, leaves), with_gradients(expected, leaves))


@EVERY_CELL
def test_initial_weights_are_distributed_as_in_torch(name: str) -> None:
    cell = CELLS[name](5, 100)
    for parameter in cell.parameters():
        assert parameter.detach().abs().max().item() <= 0.1
        assert parameter.detach().std().item() == pytest.approx(0.1 / 3**0.5, rel=0.15)


@EVERY_CELL
@pytest.mark.parametrize(("N", "size"), [(4, 5), (1, 1), (0, 3)])
def test_gates_and_gradients_equal_the_formula(name: str, N: int, size: int) -> None:
    tensors = inputs(name, N, size)
    actual = with_gradients(update(name, tensors), tensors)
    assert_all_close(actual, with_gradients(FORMULAS[name](*tensors), tensors))


@EVERY_CELL
def test_gradients_equal_finite_differences(name: str) -> None:
    tensors = [
        tensor.detach().double().requires_grad_() for tensor in inputs(name, 3, 2)
    ]
    input_proj, hidden_proj, *states = tensors
    # The hidden state of an LSTM enters through its projection only.
    *fixed, last = states
    assert torch.autograd.gradcheck(
        lambda i, h, state: CELLS[name].update(i, h, (*fixed, state)),
        [input_proj, hidden_proj, last],
    )


@EVERY_CELL
def test_output_gradients_of_any_layout_are_accepted(name: str) -> None:
    tensors = inputs(name)
    for reduce in (
        lambda y: y.sum(),
        lambda y: y.t().cumsum(0).square().sum(),
        lambda y: y[:, ::2].sum(),
    ):
        actual = [reduce(y) for y in update(name, tensors)]
        expected = [reduce(y) for y in FORMULAS[name](*tensors)]
        assert_all_close(
            with_gradients(actual, tensors), with_gradients(expected, tensors)
        )


@EVERY_CELL
@pytest.mark.parametrize("low", [(0,), (1,), (0, 1)])
def test_states_stay_float32_with_bfloat16_projections(
    name: str, low: tuple[int, ...]
) -> None:
    exact = inputs(name)
    tensors = list(exact)
    for i in low:
        tensors[i] = exact[i].detach().bfloat16().requires_grad_()
    states = update(name, tensors)
    actual = with_gradients(states, tensors)
    assert all(state.dtype == torch.float32 for state in states)
    for gradient, tensor in zip(actual[len(states) :], tensors, strict=True):
        assert gradient.dtype == tensor.dtype
    assert_all_near(actual, with_gradients(FORMULAS[name](*exact), exact), 0.02)


@EVERY_CELL
def test_saturated_gates_give_finite_gradients(name: str) -> None:
    tensors = [(x.detach() * 1e4).requires_grad_() for x in inputs(name)]
    actual = update(name, tensors)
    assert_all_close(actual, FORMULAS[name](*tensors), atol=1e-2)
    for gradient in with_gradients(actual, tensors):
        assert bool(gradient.isfinite().all())
