"""The hand-written additive score equals its formula: value, gradients, and saved tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.scores import Additive, _Additive

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
SHAPES = [(R, H, T, S) for R in (1, 3) for H in (1, 4) for T in (1, 5) for S in (1, 6)]


def plain(query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    return torch.einsum("rhtse,he->rhts", torch.tanh(query[:, :, :, None] + keys[:, :, None]), vector)


def inputs(R: int, H: int, T: int, S: int, E: int = 7, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Query, keys and vector."""
    shapes = ((R, H, T, E), (R, H, S, E), (H, E))
    return [torch.randn(shape, dtype=dtype).requires_grad_() for shape in shapes]


def gradients(output: Tensor, of: list[Tensor]) -> list[Tensor]:
    """Gradients of a fixed random combination of the outputs."""
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(7))
    return list(torch.autograd.grad((output * direction).sum(), of))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_score_equals_its_formula_and_so_do_all_gradients(shape: tuple[int, int, int, int]) -> None:
    given = inputs(*shape)
    found, wanted = _Additive.apply(*given), plain(*given)
    assert found.shape == shape
    torch.testing.assert_close(found, wanted, **CLOSE)
    for mine, other in zip(gradients(found, given), gradients(wanted, given), strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


@pytest.mark.parametrize("shape", [(2, 1, 1, 3), (2, 1, 2, 3), (2, 3, 1, 2), (1, 2, 2, 2)])
def test_the_gradients_are_those_of_small_steps(shape: tuple[int, int, int, int]) -> None:
    given = inputs(*shape, E=3, dtype=torch.float64)
    assert torch.autograd.gradcheck(_Additive.apply, given)


@pytest.mark.parametrize("heads", [1, 3])
def test_the_score_of_a_module_is_this_one(heads: int) -> None:
    made, (query, keys, _) = Additive(heads, 7), inputs(2, heads, 4, 5)
    learnt = [query, keys, made.vector]
    found, wanted = made(query, made.prepare(keys)), plain(query, keys, made.vector)
    torch.testing.assert_close(found, wanted, **CLOSE)
    for mine, other in zip(gradients(found, learnt), gradients(wanted, learnt), strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


@pytest.mark.parametrize("heads", [1, 3])
def test_heads_that_were_cut_by_a_transposition_score_the_same(heads: int) -> None:
    given = inputs(2, heads, 4, 5)
    strange = [part.transpose(1, 2).contiguous().transpose(1, 2) for part in given[:2]]
    found, wanted = _Additive.apply(*strange, given[2]), plain(*given)
    torch.testing.assert_close(found, wanted, **CLOSE)
    for mine, other in zip(gradients(found, given), gradients(wanted, given), strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_is_frozen_gets_no_gradient_and_the_others_theirs(frozen: int, heads: int) -> None:
    given = inputs(2, heads, 4, 5)
    given[frozen] = given[frozen].detach()
    learnt = [part for part in given if part.requires_grad]
    found, wanted = gradients(_Additive.apply(*given), learnt), gradients(plain(*given), learnt)
    for mine, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


@pytest.mark.parametrize("heads", [1, 3])
def test_queries_and_keys_as_large_as_they_come_give_no_nan(heads: int) -> None:
    given = [(part.detach() * 1e4).requires_grad_() for part in inputs(2, heads, 4, 5)]
    found = _Additive.apply(*given)
    torch.testing.assert_close(found, plain(*given), rtol=1e-5, atol=1e-1)
    for gradient in gradients(found, given):
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("heads", [1, 3])
def test_bfloat16_is_close_and_the_vector_keeps_its_precision(heads: int) -> None:
    exact = inputs(2, heads, 4, 5)
    low = [part.detach().bfloat16().requires_grad_() for part in exact[:2]]
    found, wanted = _Additive.apply(*low, exact[2]), plain(*exact)
    assert found.dtype == torch.bfloat16
    results = [[found, *gradients(found, [*low, exact[2]])], [wanted, *gradients(wanted, exact)]]
    assert results[0][-1].dtype == torch.float32
    for mine, other in zip(*results, strict=True):
        assert float((mine.float() - other).detach().norm() / other.detach().norm()) < 0.03


@pytest.mark.parametrize("heads", [1, 3])
def test_what_went_in_stays_as_it_was(heads: int) -> None:
    given = inputs(2, heads, 4, 5)
    kept = [part.detach().clone() for part in given]
    gradients(_Additive.apply(*given), given)
    for mine, other in zip(given, kept, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("heads", [1, 3])
def test_going_back_twice_gives_the_same_twice(heads: int) -> None:
    given = inputs(2, heads, 4, 5)
    total = _Additive.apply(*given).square().sum()
    first = torch.autograd.grad(total, given, retain_graph=True)
    for mine, other in zip(torch.autograd.grad(total, given), first, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("heads", [1, 3])
def test_one_tensor_of_all_pairs_is_kept_for_the_way_back(heads: int) -> None:
    """Additive reads with gradients are bounded by this tensor; autograd alone would keep two."""
    kept: list[int] = []
    given = inputs(2, heads, 4, 5)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        _Additive.apply(*given)
    assert sum(size >= 2 * heads * 4 * 5 * 7 for size in kept) == 1
