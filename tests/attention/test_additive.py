"""The hand-written additive score equals its formula: value, gradients, and saved tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.scores import Additive, _Additive

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
SHAPES = [(R, H, T, S) for R in (1, 3) for H in (1, 4) for T in (1, 5) for S in (1, 6)]


def formula(query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    return torch.einsum(
        "rhtse,he->rhts", torch.tanh(query[:, :, :, None] + keys[:, :, None]), vector
    )


def inputs(
    R: int, H: int, T: int, S: int, E: int = 7, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Create query, keys and vector."""
    shapes = ((R, H, T, E), (R, H, S, E), (H, E))
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def gradients(output: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """Compute gradients of a fixed random combination of the outputs."""
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(7))
    return list(torch.autograd.grad((output * direction).sum(), leaves))


@pytest.mark.parametrize("shape", SHAPES)
def test_score_and_gradients_equal_the_formula(shape: tuple[int, int, int, int]) -> None:
    tensors = inputs(*shape)
    actual = _Additive.apply(*tensors)
    expected = formula(*tensors)
    assert actual.shape == shape
    torch.testing.assert_close(actual, expected, **CLOSE)
    for result, reference in zip(
        gradients(actual, tensors), gradients(expected, tensors), strict=True
    ):
        torch.testing.assert_close(result, reference, **CLOSE)


@pytest.mark.parametrize("shape", [(2, 1, 1, 3), (2, 1, 2, 3), (2, 3, 1, 2), (1, 2, 2, 2)])
def test_gradients_equal_finite_differences(shape: tuple[int, int, int, int]) -> None:
    tensors = inputs(*shape, E=3, dtype=torch.float64)
    assert torch.autograd.gradcheck(_Additive.apply, tensors)


@pytest.mark.parametrize("heads", [1, 3])
def test_additive_module_equals_the_formula(heads: int) -> None:
    score, (query, keys, _) = Additive(heads, 7), inputs(2, heads, 4, 5)
    leaves = [query, keys, score.vector]
    actual = score(query, score.prepare(keys))
    expected = formula(query, keys, score.vector)
    torch.testing.assert_close(actual, expected, **CLOSE)
    for result, reference in zip(
        gradients(actual, leaves), gradients(expected, leaves), strict=True
    ):
        torch.testing.assert_close(result, reference, **CLOSE)


@pytest.mark.parametrize("heads", [1, 3])
def test_transposed_strides_do_not_change_the_score(heads: int) -> None:
    tensors = inputs(2, heads, 4, 5)
    transposed = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in tensors[:2]]
    actual = _Additive.apply(*transposed, tensors[2])
    expected = formula(*tensors)
    torch.testing.assert_close(actual, expected, **CLOSE)
    for result, reference in zip(
        gradients(actual, tensors), gradients(expected, tensors), strict=True
    ):
        torch.testing.assert_close(result, reference, **CLOSE)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_frozen_inputs_leave_the_other_gradients_unchanged(frozen: int, heads: int) -> None:
    tensors = inputs(2, heads, 4, 5)
    tensors[frozen] = tensors[frozen].detach()
    trainable = [tensor for tensor in tensors if tensor.requires_grad]
    actual = gradients(_Additive.apply(*tensors), trainable)
    expected = gradients(formula(*tensors), trainable)
    for result, reference in zip(actual, expected, strict=True):
        torch.testing.assert_close(result, reference, **CLOSE)


@pytest.mark.parametrize("heads", [1, 3])
def test_large_queries_and_keys_give_finite_gradients(heads: int) -> None:
    tensors = [(tensor.detach() * 1e4).requires_grad_() for tensor in inputs(2, heads, 4, 5)]
    actual = _Additive.apply(*tensors)
    torch.testing.assert_close(actual, formula(*tensors), rtol=1e-5, atol=1e-1)
    for gradient in gradients(actual, tensors):
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("heads", [1, 3])
def test_bfloat16_is_close_and_the_gradient_of_the_vector_stays_float32(heads: int) -> None:
    exact = inputs(2, heads, 4, 5)
    low = [tensor.detach().bfloat16().requires_grad_() for tensor in exact[:2]]
    actual = _Additive.apply(*low, exact[2])
    expected = formula(*exact)
    assert actual.dtype == torch.bfloat16
    results = [
        [actual, *gradients(actual, [*low, exact[2]])],
        [expected, *gradients(expected, exact)],
    ]
    assert results[0][-1].dtype == torch.float32
    for result, reference in zip(*results, strict=True):
        assert (
            float((result.float() - reference).detach().norm() / reference.detach().norm()) < 0.03
        )


@pytest.mark.parametrize("heads", [1, 3])
def test_inputs_are_not_modified(heads: int) -> None:
    tensors = inputs(2, heads, 4, 5)
    before = [tensor.detach().clone() for tensor in tensors]
    gradients(_Additive.apply(*tensors), tensors)
    for result, reference in zip(tensors, before, strict=True):
        assert torch.equal(result, reference)


@pytest.mark.parametrize("heads", [1, 3])
def test_two_backward_passes_give_equal_gradients(heads: int) -> None:
    tensors = inputs(2, heads, 4, 5)
    total = _Additive.apply(*tensors).square().sum()
    first = torch.autograd.grad(total, tensors, retain_graph=True)
    for result, reference in zip(torch.autograd.grad(total, tensors), first, strict=True):
        assert torch.equal(result, reference)


@pytest.mark.parametrize("heads", [1, 3])
def test_backward_saves_one_tensor_of_all_pairs(heads: int) -> None:
    """This tensor bounds the memory of additive attention in training; autograd alone would save
    two.
    """
    saved_sizes: list[int] = []
    tensors = inputs(2, heads, 4, 5)
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: saved_sizes.append(x.numel()) or x, lambda x: x
    ):
        _Additive.apply(*tensors)
    assert sum(size >= 2 * heads * 4 * 5 * 7 for size in saved_sizes) == 1
