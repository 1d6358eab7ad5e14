"""Law 1: every score is what its formula says, computed for one query and one key at a time."""

import math
from collections.abc import Callable

import pytest
import torch

from regard.attention import SCORES, Score
from regard.attention.scores import build_score
from regard.errors import ConfigurationError

R, H, T, S, E = 2, 3, 5, 4, 6
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


FORMULAS: dict[str, Callable[[Score, int, Numbers, Numbers], float]] = {
    "dot": dot,
    "scaled_dot": scaled_dot,
    "general": general,
    "additive": additive,
    "cosine": cosine,
    "cosine_fixed": cosine_fixed,
}


def queries_and_keys() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(R, H, T, E), torch.randn(R, H, S, E)


def test_every_score_has_a_formula_here() -> None:
    assert set(SCORES) == set(FORMULAS)


def shaken(kind: Score) -> Score:
    """The score with weights that are not the ones it began with."""
    with torch.no_grad():
        for parameter in kind.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return kind


@pytest.mark.parametrize("name", SCORES)
def test_a_score_equals_a_loop_over_queries_and_keys(name: str) -> None:
    kind, (query, keys) = shaken(build_score(name, H, E)), queries_and_keys()
    found = kind(query, kind.prepare(keys)).detach()
    assert found.shape == (R, H, T, S)
    for r, h, t, s in torch.cartesian_prod(*map(torch.arange, (R, H, T, S))).tolist():
        wanted = FORMULAS[name](kind, h, query[r, h, t].tolist(), keys[r, h, s].tolist())
        assert found[r, h, t, s].item() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_a_score_that_is_a_dot_product_says_the_same_as_one(name: str) -> None:
    kind, (query, keys) = build_score(name, H, E), queries_and_keys()
    prepared = kind.prepare(keys)
    dot = kind.as_dot(query)
    if dot is None:
        assert type(kind).forward is not Score.forward, "neither a dot product nor a forward of its own"
        return
    wanted = torch.einsum("rhte,rhse->rhts", dot[0] * dot[1], prepared)
    torch.testing.assert_close(kind(query, prepared), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_a_score_depends_on_query_and_key_alone(name: str) -> None:
    kind, (query, keys) = build_score(name, H, E), queries_and_keys()
    whole = kind(query, kind.prepare(keys))
    part = kind(query[1:, :, 2:3], kind.prepare(keys[1:, :, 1:3]))
    torch.testing.assert_close(part, whole[1:, :, 2:3, 1:3], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_every_number_of_a_score_is_learnt(name: str) -> None:
    kind, (query, keys) = build_score(name, H, E), queries_and_keys()
    query.requires_grad_()
    keys.requires_grad_()
    (kind(query, kind.prepare(keys)) * torch.randn(R, H, T, S)).sum().backward()
    for learnt in (query, keys, *kind.parameters()):
        assert learnt.grad is not None
        assert learnt.grad.abs().min() > 0


def test_the_general_score_compares_queries_and_keys_of_different_sizes_and_the_others_refuse() -> None:
    kind, query, keys = build_score("general", H, E, 4), torch.randn(R, H, T, 4), torch.randn(R, H, S, E)
    found = kind(query, kind.prepare(keys))
    for r, h, t, s in torch.cartesian_prod(*map(torch.arange, (R, H, T, S))).tolist():
        wanted = general(kind, h, query[r, h, t].tolist(), keys[r, h, s].tolist())
        assert found[r, h, t, s].item() == pytest.approx(wanted, abs=1e-5)
    for name in set(SCORES) - {"general"}:
        with pytest.raises(ConfigurationError, match="compares queries and keys of one size, got 4 and 6"):
            build_score(name, H, E, 4)


@pytest.mark.parametrize("name", ["cosine", "cosine_fixed"])
def test_a_cosine_knows_directions_only_and_nothing_is_like_nothing(name: str) -> None:
    kind, (query, keys) = shaken(build_score(name, H, E)), queries_and_keys()
    prepared = kind.prepare(keys)
    torch.testing.assert_close(kind(3 * query, kind.prepare(keys / 7)), kind(query, prepared), rtol=0, atol=1e-5)
    like = kind(keys, prepared).diagonal(dim1=2, dim2=3)
    assert bool((like >= kind(keys, prepared).amax(-1) - 1e-5).all()), "nothing is more like a vector than itself"
    assert not kind(query, kind.prepare(torch.zeros_like(keys))).any()


def test_a_score_without_a_formula_says_what_is_missing() -> None:
    query, keys = queries_and_keys()
    with pytest.raises(AssertionError, match="must define as_dot or forward"):
        Score(H, E)(query, keys)
