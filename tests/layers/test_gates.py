"""The gates of recurrent cells, written out by hand: autograd of the plain formula says the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.layers.cells import CELLS

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}


def gru(projected: Tensor, said: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    r, z, _ = (projected + said).sigmoid().chunk(3, -1)
    n = torch.tanh(projected.chunk(3, -1)[2] + r * said.chunk(3, -1)[2])
    return ((1 - z) * n + z * h,)


def lstm(projected: Tensor, said: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    i, f, g, o = (projected + said).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def tanh(projected: Tensor, said: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    return ((projected + said).tanh(),)


FORMULAS = {"gru": gru, "lstm": lstm, "tanh": tanh}


def inputs(name: str, N: int = 4, size: int = 5, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """What the inputs say to the gates, what the hidden state says to them, and the states."""
    cell = CELLS[name]
    widths = [cell.gates * size] * 2 + [size] * cell.states
    return [torch.randn(N, width, dtype=dtype).requires_grad_() for width in widths]


def bend(name: str, given: list[Tensor]) -> tuple[Tensor, ...]:
    return CELLS[name].update(given[0], given[1], tuple(given[2:]))


def gradients(outputs: tuple[Tensor, ...], of: list[Tensor]) -> list[Tensor]:
    """Gradients of a fixed random combination of the outputs; zeros for what was not used."""
    generator = torch.Generator().manual_seed(7)
    total = torch.stack([(y * torch.randn(y.shape, generator=generator)).sum() for y in outputs]).sum()
    found = torch.autograd.grad(total, of, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, of, strict=True)]


def test_every_cell_has_its_formula_here() -> None:
    assert set(CELLS) == set(FORMULAS)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize(("N", "size"), [(4, 5), (1, 1), (0, 3), (33, 16)])
def test_the_gates_equal_their_formula_and_so_do_all_gradients(name: str, N: int, size: int) -> None:
    given = inputs(name, N, size)
    found, wanted = bend(name, given), FORMULAS[name](*given)
    assert len(found) == CELLS[name].states
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)
    for mine, other in zip(gradients(found, given), gradients(wanted, given), strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


@pytest.mark.parametrize("name", CELLS)
def test_the_gradients_are_those_of_small_steps(name: str) -> None:
    given = inputs(name, 3, 2, torch.float64)
    used = [given[0], given[1], *given[-1:]]  # an LSTM reads its hidden state through what it says alone
    rest = tuple(given[2:-1])
    assert torch.autograd.gradcheck(lambda p, s, last: CELLS[name].update(p, s, (*rest, last)), used)


@pytest.mark.parametrize("name", CELLS)
def test_many_steps_in_a_row_equal_the_formula(name: str) -> None:
    given, results = inputs(name), []
    for step in (lambda *parts: bend(name, list(parts)), FORMULAS[name]):
        states = tuple(given[2:])
        for t in range(6):
            states = step(given[0] * (1 + t / 6), given[1] + states[0].repeat(1, CELLS[name].gates), *states)
        results.append([*states, *gradients(states, given)])
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


@pytest.mark.parametrize("name", CELLS)
def test_a_gradient_of_any_layout_is_taken(name: str) -> None:
    given = inputs(name)
    for turn in (lambda y: y.sum(), lambda y: y.t().cumsum(0).square().sum(), lambda y: y[:, ::2].sum()):
        results = [
            gradients(tuple(turn(y)[None] for y in outputs), given)
            for outputs in (bend(name, given), FORMULAS[name](*given))
        ]
        for mine, other in zip(*results, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("low", [(0,), (1,), (0, 1)])
def test_products_may_be_bfloat16_and_states_stay_float32(name: str, low: tuple[int, ...]) -> None:
    exact = inputs(name)
    given = [x.detach().bfloat16().requires_grad_() if i in low else x for i, x in enumerate(exact)]
    found, wanted = bend(name, given), FORMULAS[name](*exact)
    assert all(state.dtype == torch.float32 for state in found)
    results = [[*found, *gradients(found, given)], [*wanted, *gradients(wanted, exact)]]
    for mine, x in zip(results[0][len(found) :], given, strict=True):
        assert mine.dtype == x.dtype
    for mine, other in zip(*results, strict=True):
        assert float((mine.float() - other).detach().norm()) <= 0.02 * float(other.detach().norm())


@pytest.mark.parametrize("name", CELLS)
def test_what_goes_in_stays_as_it_was(name: str) -> None:
    given = inputs(name)
    kept = [x.detach().clone() for x in given]
    gradients(bend(name, given), given)
    for mine, other in zip(given, kept, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("name", CELLS)
def test_a_gate_that_is_full_or_shut_gives_no_nan(name: str) -> None:
    given = [(x.detach() * 1e4).requires_grad_() for x in inputs(name)]
    found, wanted = bend(name, given), FORMULAS[name](*given)
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-2)
    for gradient in gradients(found, given):
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("name", CELLS)
def test_going_back_twice_gives_the_same_twice(name: str) -> None:
    given = inputs(name)
    total = bend(name, given)[0].square().sum()
    first = torch.autograd.grad(total, given[:2], retain_graph=True)
    for mine, other in zip(torch.autograd.grad(total, given[:2]), first, strict=True):
        assert torch.equal(mine, other)
