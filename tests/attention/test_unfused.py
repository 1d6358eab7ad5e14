"""Unfused attention equals the fused kernel: output and gradients, in float32, and nearly so in bfloat16."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import SCORES, Attention, Memory, attention, watch
from regard.attention.unfused import attend_unfused

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 2e-6}
R, H, T, S, E, V = 3, 2, 4, 6, 5, 7
SCALE = 0.37


def inputs(T: int = T, S: int = S, factor: float = 1.0) -> list[Tensor]:
    """Query, keys and values; keys and values are not equally large."""
    sizes = ((T, E), (S, E), (S, V))
    return [(torch.randn(R, H, n, size) * factor).requires_grad_() for n, size in sizes]


def gradients(output: Tensor, of: list[Tensor]) -> list[Tensor]:
    """Gradients of a fixed random combination of the outputs."""
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(7))
    return list(torch.autograd.grad((output * direction).sum(), of))


def padding(*lengths: int) -> Tensor:
    return (torch.arange(S) < torch.tensor(lengths)[:, None])[:, None, None]  # (R, 1, 1, S)


def past(T: int) -> Tensor:
    """The newest of T queries stands at the newest entry."""
    return torch.ones(T, S, dtype=torch.bool).tril(S - T)[None, None]


KEEPS: dict[str, Tensor | None] = {
    "everything": None,
    "everything, told": torch.ones(1, 1, 1, S, dtype=torch.bool),
    "padding": padding(6, 3, 1),
    "one mask for all rows": padding(4),
    "past": past(T),
    "past of padding": past(T) & padding(6, 4, 3),
    "a mask of its own for each query": torch.rand(R, 1, T, S, generator=torch.Generator().manual_seed(0)) < 0.6,
    "a row with nothing to read": padding(6, 0, 2),
    "nothing at all": padding(0, 0, 0),
    "queries with nothing to read": past(T).roll(2, 2) & padding(6, 2, 0),
}


@pytest.mark.parametrize("name", KEEPS)
def test_two_products_equal_torch_in_value_and_gradients(name: str) -> None:
    keep, given = KEEPS[name], inputs()
    found = attend_unfused(*given, keep, SCALE)
    wanted = F.scaled_dot_product_attention(*given, attn_mask=keep, scale=SCALE)
    assert found.shape == (R, H, T, V)
    torch.testing.assert_close(found, wanted, **CLOSE)
    for mine, other in zip(gradients(found, given), gradients(wanted, given), strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 6), (5, 1), (9, 2), (3, 40)])
def test_as_many_queries_and_entries_as_one_likes(T: int, S: int) -> None:
    given = inputs(T, S)
    found, wanted = attend_unfused(*given, None, SCALE), F.scaled_dot_product_attention(*given, scale=SCALE)
    torch.testing.assert_close(found, wanted, **CLOSE)
    for mine, other in zip(gradients(found, given), gradients(wanted, given), strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


def test_heads_that_were_cut_by_a_transposition_read_the_same() -> None:
    given = inputs()
    strange = [part.transpose(1, 2).contiguous().transpose(1, 2) for part in given]
    assert not strange[0].is_contiguous()
    keep = KEEPS["padding"]
    found, wanted = attend_unfused(*strange, keep, SCALE), attend_unfused(*given, keep, SCALE)
    torch.testing.assert_close(found, wanted, **CLOSE)
    for mine, other in zip(gradients(found, given), gradients(wanted, given), strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


def test_rows_with_nothing_to_read_give_zeros_with_zero_gradients() -> None:
    given = inputs()
    found = attend_unfused(*given, padding(6, 0, 2), SCALE)
    assert torch.equal(found[1], torch.zeros(H, T, V))
    for gradient in gradients(found, given):
        assert bool(gradient.isfinite().all())
        assert torch.equal(gradient[1], torch.zeros_like(gradient[1]))
        assert bool(gradient[0].abs().amax(-1).gt(0).all())


@pytest.mark.parametrize("factor", [0.0, 1e4, -1e8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hidden_entries_change_nothing_however_large(dtype: torch.dtype, factor: float) -> None:
    keep = padding(6, 2, 0)
    given = [part.detach().to(dtype) for part in inputs()]
    strange = [given[0], *(torch.where(keep.transpose(2, 3), part, part * factor) for part in given[1:])]
    results = []
    for some in (given, strange):
        learnt = [part.clone().requires_grad_() for part in some]
        found = attend_unfused(*learnt, keep, SCALE)
        by_query, by_keys, by_values = gradients(found, learnt)
        hidden = ~keep.transpose(2, 3)
        assert float(by_keys.masked_select(hidden).abs().sum()) == 0
        assert float(by_values.masked_select(hidden).abs().sum()) == 0
        results.append([found, by_query, by_keys, by_values])
    for mine, other in zip(*results, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", KEEPS)
def test_scores_as_large_as_they_come_give_no_nan(name: str, dtype: torch.dtype) -> None:
    query, keys, values = (part.detach() for part in inputs())
    query, keys = query.sign() * 100, keys.sign() * 100  # scores of ±1e4 and all between
    given = [part.to(dtype).requires_grad_() for part in (query, keys, values)]
    found = attend_unfused(*given, KEEPS[name], 1.0)
    scores = given[0] @ given[1].transpose(-1, -2)
    assert float(scores.detach().max()) >= 1e4
    for part in (found, *gradients(found, given)):
        assert bool(part.isfinite().all())


def test_the_scale_may_be_negative_or_nothing() -> None:
    given = inputs()
    nothing = attend_unfused(*given, None, 0.0)
    torch.testing.assert_close(nothing, given[2].mean(2, keepdim=True).expand_as(nothing), **CLOSE)
    turned = attend_unfused(-given[0], *given[1:], None, -SCALE)
    torch.testing.assert_close(turned, attend_unfused(*given, None, SCALE), **CLOSE)


@pytest.mark.parametrize("name", KEEPS)
def test_bfloat16_is_close(name: str) -> None:
    keep, exact = KEEPS[name], inputs()
    low = [part.detach().bfloat16().requires_grad_() for part in exact]
    found, wanted = attend_unfused(*low, keep, SCALE), attend_unfused(*exact, keep, SCALE)
    results = [[found, *gradients(found, low)], [wanted, *gradients(wanted, exact)]]
    for mine, other in zip(*results, strict=True):
        assert mine.dtype == torch.bfloat16
        assert float((mine.float() - other).detach().norm()) <= 0.02 * float(other.detach().norm())


@pytest.mark.parametrize("autocast", [False, True])
def test_inside_autocast_float32_stays_float32(autocast: bool) -> None:
    given = inputs()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        found = attend_unfused(*given, None, SCALE)
        results = [found, *gradients(found, given)]
    wanted = F.scaled_dot_product_attention(*given, scale=SCALE)
    for mine, other in zip(results, [wanted, *gradients(wanted, given)], strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, other, **CLOSE)


def test_what_is_frozen_gets_no_gradient_and_the_others_theirs() -> None:
    for frozen in range(3):
        given = inputs()
        given[frozen] = given[frozen].detach()
        learnt = [part for part in given if part.requires_grad]
        found = gradients(attend_unfused(*given, None, SCALE), learnt)
        wanted = gradients(F.scaled_dot_product_attention(*given, scale=SCALE), learnt)
        for mine, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(mine, other, **CLOSE)


# --- when it is used


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The answers that were computed by two products."""
    answers: list[Tensor] = []

    def spy(*given: Any) -> Tensor:
        answers.append(attend_unfused(*given))
        return answers[-1]

    monkeypatch.setattr(attention, "attend_unfused", spy)
    return answers


def asked(made: Attention, entries: int = 5, keep: Tensor | None = None) -> Tensor:
    query, memory = torch.randn(3, 4, 12), torch.randn(3, entries, 12)
    answer: Tensor = made(query, made.prepare(memory, memory, keep))
    return answer


@pytest.mark.parametrize("name", SCORES)
def test_autocast_on_a_cpu_reads_by_products_where_the_score_is_a_dot_product(name: str, calls: list[Tensor]) -> None:
    made = Attention("cross", 12, 12, 12, 3, name)
    asked(made)
    assert not calls, "float32 goes to the fused kernel"
    with torch.autocast("cpu", torch.bfloat16):
        asked(made)
    assert len(calls) == (made.score.as_dot(torch.zeros(1, 3, 1, 4)) is not None)
    assert all(answer.dtype == torch.bfloat16 for answer in calls)


def test_a_memory_of_float32_is_read_in_float32_by_a_query_of_bfloat16(calls: list[Tensor]) -> None:
    made = Attention("cross", 12, 12, 12, 3)
    memory = made.prepare(torch.randn(3, 5, 12), torch.randn(3, 5, 12))
    with torch.autocast("cpu", torch.bfloat16):
        made(torch.randn(3, 4, 12), memory)
    assert not calls


@pytest.mark.parametrize("causal", [False, True])
def test_watched_weights_give_the_answer_that_products_gave(calls: list[Tensor], causal: bool) -> None:
    """The weights that are heard, multiplied by the values, are what came out."""
    made, entries = Attention("decoder", 12, 12, 12, 3), torch.randn(3, 4, 12)
    keep = torch.arange(4) < torch.tensor([4, 2, 0])[:, None]
    with torch.autocast("cpu", torch.bfloat16):
        memory = made.prepare(entries, entries, keep)
        plain = made(entries, memory, causal=causal)
        with watch(made) as readings:
            assert torch.equal(made(entries, memory, causal=causal), plain)
    assert torch.equal(*calls)
    weights = readings[""].float()
    wanted = torch.matmul(weights, memory.values.float()).detach()
    assert float((calls[-1].detach().float() - wanted).norm() / wanted.norm()) < 0.01
    assert torch.equal(weights[2], torch.zeros(3, 4, 4)), "nothing to read"


def test_many_queries_to_one_memory_equal_the_memory_repeated(calls: list[Tensor]) -> None:
    made, query, entries = Attention("cross", 12, 12, 12, 3), torch.randn(6, 2, 12), torch.randn(3, 5, 12)
    keep = torch.arange(5) < torch.tensor([5, 2, 0])[:, None]
    with torch.autocast("cpu", torch.bfloat16):
        memory = made.prepare(entries, entries, keep)
        found = made(query, memory)
        wanted = made(query, memory.select(torch.arange(3).repeat_interleave(2)))
    assert len(calls) == 2
    torch.testing.assert_close(found, wanted, rtol=0, atol=0.02)


def test_a_memory_without_entries_answers_zero_in_bfloat16_too() -> None:
    made = Attention("cross", 12, 12, 12, 3)
    with torch.autocast("cpu", torch.bfloat16):
        memory = Memory(torch.zeros(3, 3, 0, 4, dtype=torch.bfloat16), torch.zeros(3, 3, 0, 4, dtype=torch.bfloat16))
        found = made(torch.randn(3, 4, 12), memory)
    torch.testing.assert_close(found.float(), made.output.bias.expand(3, 4, 12).float(), rtol=0, atol=0.01)
