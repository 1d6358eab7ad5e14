"""One step of a recurrent cell equals one step of PyTorch's cell."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.layers.cells import CELLS

TORCH = {"gru": nn.GRUCell, "lstm": nn.LSTMCell, "tanh": nn.RNNCell}


def test_every_cell_has_a_pytorch_cell() -> None:
    assert set(CELLS) == set(TORCH)


@pytest.mark.parametrize("name", CELLS)
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
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(actual) == cell.states
    direction = torch.randn(4, 7)
    for result, reference in zip(actual, expected, strict=True):
        torch.testing.assert_close(result, reference, rtol=0, atol=1e-6)
    results = [
        torch.autograd.grad(sum((s * direction).sum() for s in outputs), [x, *states])
        for outputs in (actual, expected)
    ]
    for result, reference in zip(*results, strict=True):
        torch.testing.assert_close(result, reference, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", CELLS)
def test_initial_weights_are_distributed_as_in_torch(name: str) -> None:
    cell = CELLS[name](5, 100)
    for parameter in cell.parameters():
        assert parameter.detach().abs().max().item() <= 0.1
        assert parameter.detach().std().item() == pytest.approx(0.1 / 3**0.5, rel=0.15)
