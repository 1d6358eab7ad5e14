"""Law 1: every score equals its formula, computed for one query and one key at a time."""

import itertools
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
EVERY_SCORE = pytest.mark.parametrize("name", SCORES)


def dot(_: Score, head: int, query: Numbers, key: Numbers) -> float:
    return sum(q * k for q, k in zip(query, key, strict=True))


def scaled_dot(score: Score, head: int, query: Numbers, key: Numbers) -> float:
    return dot(score, head, query, key) / math.sqrt(len(query))


def additive(score: Score, head: int, query: Numbers, key: Numbers) -> float:
    vector = score.vector[head].tolist()
    return sum(v * math.tanh(q + k) for v, q, k in zip(vector, query, key, strict=True))


def general(score: Score, head: int, query: Numbers, key: Numbers) -> float:
    rows = score.matrix[head].tolist()
    return sum(
        q * dot(score, head, row, key) for q, row in zip(query, rows, strict=True)
    )


def cosine_plain(score: Score, head: int, query: Numbers, key: Numbers) -> float:
    return dot(score, head, query, key) / math.hypot(*query) / math.hypot(*key)


def cosine_fixed(score: Score, head: int, query: Numbers, key: Numbers) -> float:
    return 10 * cosine_plain(score, head, query, key)


def cosine(score: Score, head: int, query: Numbers, key: Numbers) -> float:
    temperature = math.exp(score.log_temperature[head].item())
    return cosine_plain(score, head, query, key) / temperature


FORMULAS: dict[str, Callable[[Score, int, Numbers, Numbers], float]] = {
    "dot": dot,
    "scaled_dot": scaled_dot,
    "general": general,
    "additive": additive,
    "cosine": cosine,
    "cosine_fixed": cosine_fixed,
    "cosine_plain": cosine_plain,
}


def randomised(score: Score) -> Score:
    """Move the weights of a score away from their initial values."""
    with torch.no_grad():
        for parameter in score.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return score


def assert_equals_formula(
    name: str, score: Score, query: torch.Tensor, keys: torch.Tensor
) -> None:
    actual = score(query, score.prepare(keys)).detach()
    assert actual.shape == (R, H, T, S)
    for r, h, t, s in itertools.product(range(R), range(H), range(T), range(S)):
        expected = FORMULAS[name](
            score, h, query[r, h, t].tolist(), keys[r, h, s].tolist()
        )
        assert actual[r, h, t, s].item() == pytest.approx(expected, abs=1e-5)


@EVERY_SCORE
def test_score_equals_a_loop_over_queries_and_keys(name: str) -> None:
    score = randomised(build_score(name, H, E))
    assert_equals_formula(name, score, torch.randn(R, H, T, E), torch.randn(R, H, S, E))


@EVERY_SCORE
def test_every_parameter_of_a_score_gets_a_gradient(name: str) -> None:
    score = build_score(name, H, E)
    query = torch.randn(R, H, T, E, requires_grad=True)
    keys = torch.randn(R, H, S, E, requires_grad=True)
    (score(query, score.prepare(keys)) * torch.randn(R, H, T, S)).sum().backward()
    for leaf in (query, keys, *score.parameters()):
        assert leaf.grad is not None
        assert leaf.grad.abs().min() > 0


def test_only_the_general_score_accepts_queries_and_keys_of_different_sizes() -> None:
    score = build_score("general", H, E, 4)
    assert_equals_formula(
        "general", score, torch.randn(R, H, T, 4), torch.randn(R, H, S, E)
    )
    for name in set(SCORES) - {"general"}:
        message = "compares queries and keys of one size, got 4 and 6"
        with pytest.raises(ConfigurationError, match=message):
            build_score(name, H, E, 4)


@pytest.mark.parametrize("name", ["cosine", "cosine_fixed"])
def test_cosine_is_zero_for_zero_keys(name: str) -> None:
    score = build_score(name, H, E)
    zeros = score.prepare(torch.zeros(R, H, S, E))
    assert not score(torch.randn(R, H, T, E), zeros).any()
