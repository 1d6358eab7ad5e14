"""Hand-written gradients of recurrent gates equal autograd of the formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.layers.cells import CELLS

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}


def gru(input_proj: Tensor, hidden_proj: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    r, z, _ = (input_proj + hidden_proj).sigmoid().chunk(3, -1)
    n = torch.tanh(input_proj.chunk(3, -1)[2] + r * hidden_proj.chunk(3, -1)[2])
    return ((1 - z) * n + z * h,)


def lstm(input_proj: Tensor, hidden_proj: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    i, f, g, o = (input_proj + hidden_proj).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def tanh(input_proj: Tensor, hidden_proj: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    return ((input_proj + hidden_proj).tanh(),)


FORMULAS = {"gru": gru, "lstm": lstm, "tanh": tanh}


def inputs(
    name: str, N: int = 4, size: int = 5, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Create the input projection, the hidden projection and the states."""
    cell = CELLS[name]
    widths = [cell.gates * size] * 2 + [size] * cell.states
    return [torch.randn(N, width, dtype=dtype).requires_grad_() for width in widths]


def update(name: str, tensors: list[Tensor]) -> tuple[Tensor, ...]:
    return CELLS[name].update(tensors[0], tensors[1], tuple(tensors[2:]))


def gradients(outputs: tuple[Tensor, ...], leaves: list[Tensor]) -> list[Tensor]:
    """Compute gradients of a fixed random combination of the outputs; zeros for unused tensors."""
    generator = torch.Generator().manual_seed(7)
    total = torch.stack(
        [(y * torch.randn(y.shape, generator=generator)).sum() for y in outputs]
    ).sum()
    grads = torch.autograd.grad(total, leaves, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(grads, leaves, strict=True)]


def test_every_cell_has_a_formula() -> None:
    assert set(CELLS) == set(FORMULAS)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(("N", "size"), [(4, 5), (1, 1), (0, 3), (33, 16)])
def test_gates_and_gradients_equal_the_formula(name: str, N: int, size: int) -> None:
    tensors = inputs(name, N, size)
    actual = update(name, tensors)
    expected = FORMULAS[name](*tensors)
    assert len(actual) == CELLS[name].states
    for result, reference in zip(actual, expected, strict=True):
        torch.testing.assert_close(result, reference, **CLOSE)
    for result, reference in zip(
        gradients(actual, tensors), gradients(expected, tensors), strict=True
    ):
        torch.testing.assert_close(result, reference, **CLOSE)


@pytest.mark.parametrize("name", CELLS)
def test_gradients_equal_finite_differences(name: str) -> None:
    tensors = inputs(name, 3, 2, torch.float64)
    # The hidden state of an LSTM enters through its projection only.
    leaves = [
        tensors[0],
        tensors[1],
        *tensors[-1:],
    ]
    fixed_states = tuple(tensors[2:-1])
    assert torch.autograd.gradcheck(
        lambda p, s, last: CELLS[name].update(p, s, (*fixed_states, last)), leaves
    )


@pytest.mark.parametrize("name", CELLS)
def test_consecutive_steps_equal_the_formula(name: str) -> None:
    tensors = inputs(name)
    results = []
    for step in (lambda *arguments: update(name, list(arguments)), FORMULAS[name]):
        states = tuple(tensors[2:])
        for t in range(6):
            states = step(
                tensors[0] * (1 + t / 6),
                tensors[1] + states[0].repeat(1, CELLS[name].gates),
                *states,
            )
        results.append([*states, *gradients(states, tensors)])
    for result, reference in zip(*results, strict=True):
        torch.testing.assert_close(result, reference, **CLOSE)


@pytest.mark.parametrize("name", CELLS)
def test_output_gradients_of_any_layout_are_accepted(name: str) -> None:
    tensors = inputs(name)
    for reduce in (
        lambda y: y.sum(),
        lambda y: y.t().cumsum(0).square().sum(),
        lambda y: y[:, ::2].sum(),
    ):
        results = [
            gradients(tuple(reduce(y)[None] for y in outputs), tensors)
            for outputs in (update(name, tensors), FORMULAS[name](*tensors))
        ]
        for result, reference in zip(*results, strict=True):
            torch.testing.assert_close(result, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("low", [(0,), (1,), (0, 1)])
def test_states_stay_float32_with_bfloat16_projections(name: str, low: tuple[int, ...]) -> None:
    exact = inputs(name)
    tensors = [
        x.detach().bfloat16().requires_grad_() if i in low else x for i, x in enumerate(exact)
    ]
    actual = update(name, tensors)
    expected = FORMULAS[name](*exact)
    assert all(state.dtype == torch.float32 for state in actual)
    results = [[*actual, *gradients(actual, tensors)], [*expected, *gradients(expected, exact)]]
    for result, x in zip(results[0][len(actual) :], tensors, strict=True):
        assert result.dtype == x.dtype
    for result, reference in zip(*results, strict=True):
        assert float((result.float() - reference).detach().norm()) <= 0.02 * float(
            reference.detach().norm()
        )


@pytest.mark.parametrize("name", CELLS)
def test_inputs_are_not_modified(name: str) -> None:
    tensors = inputs(name)
    before = [x.detach().clone() for x in tensors]
    gradients(update(name, tensors), tensors)
    for result, reference in zip(tensors, before, strict=True):
        assert torch.equal(result, reference)


@pytest.mark.parametrize("name", CELLS)
def test_saturated_gates_give_finite_gradients(name: str) -> None:
    tensors = [(x.detach() * 1e4).requires_grad_() for x in inputs(name)]
    actual = update(name, tensors)
    expected = FORMULAS[name](*tensors)
    for result, reference in zip(actual, expected, strict=True):
        torch.testing.assert_close(result, reference, rtol=1e-5, atol=1e-2)
    for gradient in gradients(actual, tensors):
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("name", CELLS)
def test_two_backward_passes_give_equal_gradients(name: str) -> None:
    tensors = inputs(name)
    total = update(name, tensors)[0].square().sum()
    first = torch.autograd.grad(total, tensors[:2], retain_graph=True)
    for result, reference in zip(torch.autograd.grad(total, tensors[:2]), first, strict=True):
        assert torch.equal(result, reference)
