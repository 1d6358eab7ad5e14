"""Every score equals its formula, and so do its gradients; the additive score, whose gradients are
written by hand, saves one tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from helpers.tensor_equality import assert_all_close, assert_all_near, with_gradients
from torch import Tensor

from regard.attention import SCORES
from regard.attention.scores import _Additive, build_score
from regard.common.errors import ConfigurationError

R = 2
E = 6
EVERY_SCORE = pytest.mark.parametrize("name", SCORES)


def dot(_: object, query: Tensor, keys: Tensor) -> Tensor:
    return torch.einsum("rhte,rhse->rhts", query, keys)


def scaled_dot(_: object, query: Tensor, keys: Tensor) -> Tensor:
    return dot(_, query, keys) / math.sqrt(query.shape[-1])


def additive(vector: Tensor, query: Tensor, keys: Tensor) -> Tensor:
    activated = torch.tanh(query[:, :, :, None] + keys[:, :, None])
    return torch.einsum("rhtse,he->rhts", activated, vector)


def general(matrix: Tensor, query: Tensor, keys: Tensor) -> Tensor:
    return torch.einsum("rhtq,hqe,rhse->rhts", query, matrix, keys)


def cosine_plain(_: object, query: Tensor, keys: Tensor) -> Tensor:
    return F.cosine_similarity(query[:, :, :, None], keys[:, :, None], dim=-1)


def cosine_fixed(_: object, query: Tensor, keys: Tensor) -> Tensor:
    return 10 * cosine_plain(_, query, keys)


def cosine(log_temperature: Tensor, query: Tensor, keys: Tensor) -> Tensor:
    return cosine_plain(None, query, keys) / log_temperature.exp()[:, None, None]


FORMULAS: dict[str, Callable[..., Tensor]] = {
    "dot": dot,
    "scaled_dot": scaled_dot,
    "general": general,
    "additive": additive,
    "cosine": cosine,
    "cosine_fixed": cosine_fixed,
    "cosine_plain": cosine_plain,
}
"""Formulas of a score's weights, if it has any, of queries and of keys."""


def inputs(heads: int = 3, T: int = 4, S: int = 5, query_size: int = E) -> list[Tensor]:
    """Create a query and keys."""
    shapes = ((R, heads, T, query_size), (R, heads, S, E))
    return [torch.randn(shape).requires_grad_() for shape in shapes]


def assert_equals_formula(name: str, query: Tensor, keys: Tensor) -> None:
    score = build_score(name, query.shape[1], E, query.shape[-1])
    weights = [*score.parameters()]
    with torch.no_grad():
        for weight in weights:
            weight.add_(torch.randn_like(weight) * 0.3)
    leaves = [query, keys, *weights]
    transposed = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (query, keys)]
    formula = FORMULAS[name](weights[0] if weights else None, query, keys)
    expected = with_gradients([formula], leaves)

    for own_query, own_keys in ((query, keys), transposed):
        actual = score(own_query, score.prepare(own_keys))
        assert_all_close(with_gradients([actual], leaves), expected, atol=1e-4)


@EVERY_SCORE
@pytest.mark.parametrize(
    ("heads", "T", "S"), [(1, 4, 5), (3, 4, 5), (3, 1, 5), (1, 1, 1)]
)
def test_a_score_and_its_gradients_equal_the_formula(
    name: str, heads: int, T: int, S: int
) -> None:
    assert_equals_formula(name, *inputs(heads, T, S))


def test_only_the_general_score_accepts_queries_and_keys_of_different_sizes() -> None:
    assert_equals_formula("general", *inputs(query_size=4))

    message = "compares queries and keys of one size, got 4 and 6"

    for name in set(SCORES) - {"general"}:
        with pytest.raises(ConfigurationError, match=message):
            build_score(name, 3, E, 4)


@pytest.mark.parametrize("name", ["cosine", "cosine_fixed"])
def test_cosine_is_zero_for_zero_keys(name: str) -> None:
    query, keys = inputs()
    score = build_score(name, 3, E)

    assert not score(query, score.prepare(torch.zeros_like(keys))).any()


# --- the additive score


@pytest.mark.parametrize("heads", [1, 3])
def test_in_bfloat16_the_gradient_of_the_additive_vector_stays_float32(
    heads: int,
) -> None:
    vector = torch.randn(heads, E, requires_grad=True)
    exact = inputs(heads)
    low = [tensor.detach().bfloat16().requires_grad_() for tensor in exact]
    actual = with_gradients([_Additive.apply(*low, vector)], [*low, vector])
    expected = with_gradients([additive(vector, *exact)], [*exact, vector])

    assert actual[0].dtype == torch.bfloat16
    assert actual[-1].dtype == torch.float32
    assert_all_near(actual, expected, 0.03)


def test_backward_of_the_additive_score_saves_one_tensor_of_all_pairs() -> None:
    """This tensor bounds the memory of additive attention in training; autograd alone would save
    two.
    """
    saved_sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        saved_sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        _Additive.apply(*inputs(), torch.randn(3, E, requires_grad=True))

    pairs = R * 3 * 4 * 5 * E

    assert sum(size >= pairs for size in saved_sizes) == 1
