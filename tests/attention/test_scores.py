"""Law 1: every score equals its formula, computed for one query and one key at a time."""

import math
from collections.abc import Callable

import pytest
import torch

from regard.attention import SCORES, Score
from regard.attention.scores import build_score
from regard.common.errors import ConfigurationError

R = 2
H = 3
T = 5
S = 4
E = 6
Numbers = list[float]


def scaled_dot(_: Score, head: int, query: Numbers, key: Numbers) -> float:
    return sum(q * k for q, k in zip(query, key, strict=True)) / math.sqrt(len(query))


def additive(score: Score, head: int, query: Numbers, key: Numbers) -> float:
    vector = score.vector[head].tolist()
    return sum(v * math.tanh(q + k) for v, q, k in zip(vector, query, key, strict=True))


def dot(_: Score, head: int, query: Numbers, key: Numbers) -> float:
    return sum(q * k for q, k in zip(query, key, strict=True))


def general(score: Score, head: int, query: Numbers, key: Numbers) -> float:
    rows = score.matrix[head].tolist()
    return sum(q * dot(score, head, row, key) for q, row in zip(query, rows, strict=True))


def cosine(score: Score, head: int, query: Numbers, key: Numbers) -> float:
    return cosine_fixed(score, head, query, key) / 10 / math.exp(score.log_temperature[head].item())


def cosine_fixed(score: Score, head: int, query: Numbers, key: Numbers) -> float:
    lengths = [math.sqrt(dot(score, head, x, x)) for x in (query, key)]
    return 10 * dot(score, head, query, key) / lengths[0] / lengths[1]


def cosine_plain(score: Score, head: int, query: Numbers, key: Numbers) -> float:
    return cosine_fixed(score, head, query, key) / 10


FORMULAS: dict[str, Callable[[Score, int, Numbers, Numbers], float]] = {
    "dot": dot,
    "scaled_dot": scaled_dot,
    "general": general,
    "additive": additive,
    "cosine": cosine,
    "cosine_fixed": cosine_fixed,
    "cosine_plain": cosine_plain,
}


def queries_and_keys() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(R, H, T, E), torch.randn(R, H, S, E)


def test_every_score_has_a_formula() -> None:
    assert set(SCORES) == set(FORMULAS)


def randomised(score: Score) -> Score:
    """Move the weights of a score away from their initial values."""
    with torch.no_grad():
        for parameter in score.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return score


@pytest.mark.parametrize("name", SCORES)
def test_score_equals_a_loop_over_queries_and_keys(name: str) -> None:
    score, (query, keys) = randomised(build_score(name, H, E)), queries_and_keys()
    actual = score(query, score.prepare(keys)).detach()
    assert actual.shape == (R, H, T, S)
    for r, h, t, s in torch.cartesian_prod(*map(torch.arange, (R, H, T, S))).tolist():
        expected = FORMULAS[name](score, h, query[r, h, t].tolist(), keys[r, h, s].tolist())
        assert actual[r, h, t, s].item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_dot_product_form_equals_the_score(name: str) -> None:
    score, (query, keys) = build_score(name, H, E), queries_and_keys()
    prepared = score.prepare(keys)
    as_dot = score.as_dot(query)
    if as_dot is None:
        assert type(score).forward is not Score.forward, (
            "neither a dot product nor a forward of its own"
        )
        return
    expected = torch.einsum("rhte,rhse->rhts", as_dot[0] * as_dot[1], prepared)
    torch.testing.assert_close(score(query, prepared), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_score_depends_on_query_and_key_only(name: str) -> None:
    score, (query, keys) = build_score(name, H, E), queries_and_keys()
    full = score(query, score.prepare(keys))
    part = score(query[1:, :, 2:3], score.prepare(keys[1:, :, 1:3]))
    torch.testing.assert_close(part, full[1:, :, 2:3, 1:3], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_every_parameter_of_a_score_gets_a_gradient(name: str) -> None:
    score, (query, keys) = build_score(name, H, E), queries_and_keys()
    query.requires_grad_()
    keys.requires_grad_()
    (score(query, score.prepare(keys)) * torch.randn(R, H, T, S)).sum().backward()
    for leaf in (query, keys, *score.parameters()):
        assert leaf.grad is not None
        assert leaf.grad.abs().min() > 0


def test_only_the_general_score_accepts_queries_and_keys_of_different_sizes() -> None:
    score = build_score("general", H, E, 4)
    query = torch.randn(R, H, T, 4)
    keys = torch.randn(R, H, S, E)
    actual = score(query, score.prepare(keys))
    for r, h, t, s in torch.cartesian_prod(*map(torch.arange, (R, H, T, S))).tolist():
        expected = general(score, h, query[r, h, t].tolist(), keys[r, h, s].tolist())
        assert actual[r, h, t, s].item() == pytest.approx(expected, abs=1e-5)
    for name in set(SCORES) - {"general"}:
        with pytest.raises(
            ConfigurationError, match="compares queries and keys of one size, got 4 and 6"
        ):
            build_score(name, H, E, 4)


@pytest.mark.parametrize("name", ["cosine", "cosine_fixed"])
def test_cosine_ignores_lengths_and_is_zero_for_zero_keys(name: str) -> None:
    score, (query, keys) = randomised(build_score(name, H, E)), queries_and_keys()
    prepared = score.prepare(keys)
    torch.testing.assert_close(
        score(3 * query, score.prepare(keys / 7)), score(query, prepared), rtol=0, atol=1e-5
    )
    self_scores = score(keys, prepared).diagonal(dim1=2, dim2=3)
    assert bool((self_scores >= score(keys, prepared).amax(-1) - 1e-5).all()), (
        "a vector is most similar to itself"
    )
    assert not score(query, score.prepare(torch.zeros_like(keys))).any()


def test_score_without_a_formula_is_refused() -> None:
    query, keys = queries_and_keys()
    with pytest.raises(AssertionError, match="must define as_dot or forward"):
        Score(H, E)(query, keys)
