"""Recurrent cells: hand-written gates and gradients equal those of the formula.

That a cell equals PyTorch's is tested in `test_rnn.py` and in `laws/test_torch_oracles.py`.
"""

from __future__ import annotations

import pytest
import torch
from helpers.tensor_equality import assert_all_close, assert_all_near, with_gradients
from torch import Tensor

from regard.layers.cells import CELLS

EVERY_CELL = pytest.mark.parametrize("name", CELLS)


def gru(input_proj: Tensor, hidden_proj: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    r, z, _ = (input_proj + hidden_proj).sigmoid().chunk(3, -1)
    input_n = input_proj.chunk(3, -1)[2]
    hidden_n = hidden_proj.chunk(3, -1)[2]
    n = torch.tanh(input_n + r * hidden_n)
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
    input_proj, hidden_proj, *states = tensors
    return CELLS[name].update(input_proj, hidden_proj, tuple(states))


@EVERY_CELL
def test_initial_weights_are_distributed_as_in_torch(name: str) -> None:
    for parameter in CELLS[name](5, 100).parameters():
        weight = parameter.detach()
        assert weight.abs().max().item() <= 0.1
        assert weight.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.15)


@EVERY_CELL
def test_gates_and_gradients_equal_the_formula_for_gradients_of_any_layout(
    name: str,
) -> None:
    tensors = inputs(name)

    for reduce in (
        lambda y: y,
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
