"""The hand-written additive score equals its formula: value, gradients, and saved tensors."""

from __future__ import annotations

import pytest
import torch
from helpers.tensor_equality import assert_all_close, assert_all_near, with_gradients
from torch import Tensor

from regard.attention.scores import _Additive

HEADS = pytest.mark.parametrize("heads", [1, 3])


def formula(query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    activated = torch.tanh(query[:, :, :, None] + keys[:, :, None])
    return torch.einsum("rhtse,he->rhts", activated, vector)


def inputs(heads: int, T: int = 4, S: int = 5, E: int = 7) -> list[Tensor]:
    """Create query, keys and vector."""
    shapes = ((2, heads, T, E), (2, heads, S, E), (heads, E))
    return [torch.randn(shape).requires_grad_() for shape in shapes]


@HEADS
@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 5), (4, 1), (4, 5)])
def test_score_and_gradients_equal_the_formula(heads: int, T: int, S: int) -> None:
    tensors = inputs(heads, T, S)
    actual = with_gradients([_Additive.apply(*tensors)], tensors)
    expected = with_gradients([formula(*tensors)], tensors)
    assert actual[0].shape == (2, heads, T, S)
    assert_all_close(actual, expected)


@HEADS
def test_gradients_equal_finite_differences(heads: int) -> None:
    tensors = [
        tensor.detach().double().requires_grad_() for tensor in inputs(heads, 2, 3, 3)
    ]
    assert torch.autograd.gradcheck(_Additive.apply, tensors)


@HEADS
def test_transposed_strides_do_not_change_the_score(heads: int) -> None:
    query, keys, vector = inputs(heads)
    transposed = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (query, keys)]
    leaves = [query, keys, vector]
    actual = with_gradients([_Additive.apply(*transposed, vector)], leaves)
    assert_all_close(actual, with_gradients([formula(*leaves)], leaves))


@HEADS
def test_bfloat16_is_close_and_the_gradient_of_the_vector_stays_float32(
    heads: int,
) -> None:
    exact = inputs(heads)
    low = [tensor.detach().bfloat16().requires_grad_() for tensor in exact[:2]]
    leaves = [*low, exact[2]]
    actual = with_gradients([_Additive.apply(*leaves)], leaves)
    assert actual[0].dtype == torch.bfloat16
    assert actual[-1].dtype == torch.float32
    assert_all_near(actual, with_gradients([formula(*exact)], exact), 0.03)


@HEADS
def test_backward_saves_one_tensor_of_all_pairs(heads: int) -> None:
    """This tensor bounds the memory of additive attention in training; autograd alone would save
    two.
    """
    saved_sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        saved_sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        _Additive.apply(*inputs(heads))
    pairs = 2 * heads * 4 * 5 * 7
    assert sum(size >= pairs for size in saved_sizes) == 1
