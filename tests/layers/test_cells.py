"""One step of our recurrent cells is one step of PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.layers.cells import CELLS

TORCH = {"gru": nn.GRUCell, "lstm": nn.LSTMCell, "tanh": nn.RNNCell}


def test_every_cell_has_its_oracle_here() -> None:
    assert set(CELLS) == set(TORCH)


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_equals_torch_and_so_do_its_gradients(name: str) -> None:
    cell, theirs = CELLS[name](5, 7), TORCH[name](5, 7)
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
    found = cell(cell.input(x), states)
    wanted = theirs(x, states if name == "lstm" else states[0])
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    assert len(found) == cell.states
    direction = torch.randn(4, 7)
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-6)
    results = [torch.autograd.grad(sum((s * direction).sum() for s in some), [x, *states]) for some in (found, wanted)]
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", CELLS)
def test_the_weights_start_as_torch_starts_them(name: str) -> None:
    cell = CELLS[name](5, 100)
    for parameter in cell.parameters():
        assert parameter.detach().abs().max().item() <= 0.1
        assert parameter.detach().std().item() == pytest.approx(0.1 / 3**0.5, rel=0.15)
