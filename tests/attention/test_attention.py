"""Laws 1, 2, 3 and 4 for one attention: published formula, hidden entries, KV cache, beams that share a memory."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.attention import SCORES, Attention, Memory, watch
from regard.attention.attention import masked_softmax
from regard.attention.scores import ScaledDot

CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-5}
D = 12


def read(score: str = "scaled_dot", heads: int = 3, entry_size: int = D, raw: bool = False, seed: int = 0) -> Attention:
    """A read whose biases are not zero."""
    torch.manual_seed(seed)
    made = Attention("cross", D, entry_size, D, heads, score, project_values=not raw)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    return made


def padding(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def plain(self: Attention) -> Attention:
    """The same read without the fused kernel: scores, weights, weighted sum."""

    class Plain(ScaledDot):
        def as_dot(self, query: Tensor) -> None:  # type: ignore[override]  # noqa: ARG002
            return None

        def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
            return query @ prepared.transpose(-1, -2) / query.shape[-1] ** 0.5

    self.score = Plain(self.heads, self.size // self.heads)
    return self


def gradients(output: Tensor, of: list[Tensor]) -> list[Tensor]:
    """Gradients of a fixed random combination of the outputs."""
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(7))
    return list(torch.autograd.grad((output * direction).sum(), of))


# --- law 1: the published formula


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("entry_size", [D, 7])
def test_a_read_equals_torch_multi_head_attention(causal: bool, masked: bool, heads: int, entry_size: int) -> None:
    ours = read(heads=heads, entry_size=entry_size)
    theirs = nn.MultiheadAttention(D, heads, kdim=entry_size, vdim=entry_size, batch_first=True)
    weights = (ours.query.weight, ours.key.weight, ours.value.weight)
    with torch.no_grad():
        if entry_size == D:
            theirs.in_proj_weight.copy_(torch.cat(weights))
        else:
            separate = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
            for own, copied in zip(separate, weights, strict=True):
                own.copy_(copied)
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)

    T, S = 5, 5
    keep = padding(5, 3, 1) if masked else None
    query, keys, values = (
        torch.randn(3, n, d, requires_grad=True) for n, d in ((T, D), (S, entry_size), (S, entry_size))
    )
    with watch(ours) as readings:
        found = ours(query, ours.prepare(keys, values, keep), causal=causal)
    hidden = torch.ones(T, S, dtype=torch.bool).triu(1) if causal else None
    masks: dict[str, Any] = {"key_padding_mask": None if keep is None else ~keep, "attn_mask": hidden}
    wanted, by_head = theirs(query, keys, values, need_weights=True, average_attn_weights=False, **masks)
    _, mean = theirs(query, keys, values, need_weights=True, average_attn_weights=True, **masks)

    torch.testing.assert_close(found, wanted, **CLOSE)
    torch.testing.assert_close(readings[""], by_head.detach(), **CLOSE)
    torch.testing.assert_close(readings[""].mean(1), mean.detach(), **CLOSE)
    inputs = [query, keys, values]
    for one, other in zip(gradients(found, inputs), gradients(wanted, inputs), strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("raw", [False, True])
def test_a_read_equals_a_loop_over_rows_heads_and_queries(name: str, raw: bool) -> None:
    heads = 1 if raw else 3
    ours, keep = read(name, heads, 8, raw), padding(6, 2)
    query, entries = torch.randn(2, 4, D), torch.randn(2, 6, 8)
    found = ours(query, ours.prepare(entries, entries, keep))
    for r, t in itertools.product(range(2), range(4)):
        own = entries[r, : int(keep[r].sum())]
        q, k, v = (x.unflatten(-1, (heads, -1)) for x in (ours.query(query[r, t]), ours.key(own), ours.value(own)))
        answers = []
        for h in range(heads):
            pair = [x[None, None] for x in (q[None, h], k[:, h])]
            score = type(ours.score)(1, k.shape[-1], q.shape[-1])
            score.load_state_dict({n: p[h : h + 1] for n, p in ours.score.state_dict().items()})
            weights = score(pair[0], score.prepare(pair[1]))[0, 0, 0].exp()
            answers.append((weights / weights.sum()) @ v[:, h])
        torch.testing.assert_close(found[r, t], ours.output(torch.cat(answers)), **CLOSE)


MASKS = {
    "everything": (None, {}),
    "padding": (padding(6, 3), {}),
    "nothing": (padding(6, 0), {}),
    "past": (None, {"causal": True}),
    "past of padding": (padding(6, 4), {"causal": True}),
    "near": (None, {"window": 1}),
    "near past of padding": (padding(6, 2), {"causal": True, "window": 2}),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("T", [1, 4, 6])
def test_fused_equals_plain_and_so_do_the_gradients(mask: str, T: int) -> None:
    keep, how = MASKS[mask]
    query, keys, values = (torch.randn(2, n, D, requires_grad=True) for n in (T, 6, 6))
    results = []
    for one in (read(), plain(read())):
        found = one(query, one.prepare(keys, values, keep), **how)
        learnt = [parameter for name, parameter in one.named_parameters() if not name.startswith("score")]
        results.append([found, *gradients(found, [query, keys, values, *learnt])])
    assert all(bool(part.isfinite().all()) for part in results[0])
    for fused, slow in zip(*results, strict=True):
        torch.testing.assert_close(fused, slow, **CLOSE)


# --- law 2: hidden entries


@pytest.mark.parametrize("strange", [float("nan"), float("inf"), -float("inf"), 1e30])
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("raw", [False, True])
def test_hidden_entries_change_nothing_whatever_they_are(name: str, raw: bool, strange: float) -> None:
    ours, keep = read(name, 1 if raw else 3, raw=raw), padding(6, 2, 4)
    query, keys, values = torch.randn(3, 4, D), torch.randn(3, 6, D), torch.randn(3, 6, D)
    wanted = ours(query, ours.prepare(keys, values, keep))
    filled = [entries.masked_fill(~keep[:, :, None], strange) for entries in (keys, values)]
    for some in ((filled[0], values), (keys, filled[1]), (filled[0], filled[1])):
        assert torch.equal(ours(query, ours.prepare(*some, keep)), wanted)
        with watch(ours) as readings:
            assert torch.equal(ours(query, ours.prepare(*some, keep)), wanted)
        assert bool(readings[""].isfinite().all())


@pytest.mark.parametrize("name", SCORES)
def test_hidden_entries_change_no_gradient(name: str) -> None:
    ours, keep = read(name), padding(6, 2, 4)
    query, entries = torch.randn(3, 4, D, requires_grad=True), torch.randn(3, 6, D)
    learnt = [query, *ours.parameters()]
    wanted = gradients(ours(query, ours.prepare(entries, entries, keep)), learnt)
    other = entries.masked_fill(~keep[:, :, None], 3.0)
    for one, same in zip(gradients(ours(query, ours.prepare(other, other, keep)), learnt), wanted, strict=True):
        torch.testing.assert_close(one, same, **CLOSE)


@pytest.mark.parametrize("name", SCORES)
def test_hidden_nan_reaches_no_gradient(name: str) -> None:
    ours, keep = read(name), padding(6, 2, 4)
    query, entries = torch.randn(3, 4, D, requires_grad=True), torch.randn(3, 6, D)
    strange = entries.masked_fill(~keep[:, :, None], float("nan"))
    found = ours(query, ours.prepare(strange, strange, keep))
    for gradient in gradients(found, [query, *ours.parameters()]):
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("causal", [False, True])
def test_weights_sum_to_one_and_hidden_entries_get_exactly_nothing(name: str, causal: bool) -> None:
    ours, keep = read(name), padding(6, 2, 4)
    with watch(ours) as readings:
        ours(torch.randn(3, 6, D), ours.prepare(torch.randn(3, 6, D), torch.randn(3, 6, D), keep), causal=causal)
    weights = readings[""]
    shown = keep[:, None, None, :] & (torch.ones(6, 6).tril().bool() if causal else torch.ones(6, 6).bool())
    assert weights.shape == (3, 3, 6, 6)
    assert bool((weights >= 0).all())
    assert weights.masked_fill(shown, 0).abs().max() == 0
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 3, 6), **CLOSE)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("raw", [False, True])
def test_with_nothing_to_read_the_answer_is_zero_and_gradients_are_finite(name: str, raw: bool) -> None:
    ours, keep = read(name, 1 if raw else 3, raw=raw), padding(5, 0, 2)
    if not raw:
        nn.init.zeros_(ours.output.bias)
    query, keys, values = (torch.randn(3, n, D, requires_grad=True) for n in (4, 5, 5))
    with watch(ours) as readings:
        found = ours(query, ours.prepare(keys, values, keep))
    assert torch.equal(found[1], torch.zeros(4, D))
    assert bool(found.isfinite().all())
    assert torch.equal(readings[""][1], torch.zeros_like(readings[""][1]))
    for gradient in gradients(found, [query, keys, values, *ours.parameters()]):
        assert bool(gradient.isfinite().all())
    assert all(
        float(g[1].abs().max()) == 0 for g in gradients(ours(query, ours.prepare(keys, values, keep)), [keys, values])
    )


@pytest.mark.parametrize("name", SCORES)
def test_a_memory_without_entries_answers_zero(name: str) -> None:
    ours = read(name)
    query = torch.randn(3, 4, D, requires_grad=True)
    with watch(ours) as readings:
        found = ours(query, ours.empty(3))
    assert torch.equal(found, ours.output.bias.expand(3, 4, D))
    assert readings[""].shape == (3, 3, 4, 0)
    assert bool(gradients(found, [query])[0].isfinite().all())


def test_hiding_before_the_softmax_equals_zeroing_after_it_and_renormalising() -> None:
    scores, keep = torch.randn(3, 2, 4, 6) * 3, torch.rand(3, 1, 4, 6) < 0.7
    keep[..., 0] = True
    zeroed = scores.softmax(-1) * keep
    torch.testing.assert_close(masked_softmax(scores, keep), zeroed / zeroed.sum(-1, keepdim=True), **CLOSE)
    minus_infinity = scores.masked_fill(~keep, -torch.inf).softmax(-1)
    torch.testing.assert_close(masked_softmax(scores, keep), minus_infinity, **CLOSE)


@pytest.mark.parametrize("size", [1e4, 1e30, 3e38])
def test_scores_as_large_as_they_can_be_leave_hidden_entries_hidden(size: float) -> None:
    scores = torch.tensor([[-size, size, 0.0], [-size, -size, size]])[None, None]
    keep = torch.tensor([[True, False, False], [True, True, False]])[None, None]
    wanted = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])[None, None]
    torch.testing.assert_close(masked_softmax(scores, keep), wanted, **CLOSE)


# --- law 4: many queries to one memory


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("K", "T"), [(1, 3), (4, 1), (3, 2)])
@pytest.mark.parametrize("raw", [False, True])
def test_beams_that_share_a_memory_read_as_if_each_had_its_own(
    name: str, masked: bool, K: int, T: int, raw: bool
) -> None:
    ours = read(name, 1 if raw else 3, raw=raw)
    entries, query = torch.randn(2, 5, D), torch.randn(2 * K, T, D, requires_grad=True)
    memory = ours.prepare(entries, entries, padding(5, 2) if masked else None)
    tiled = memory.select(torch.arange(2).repeat_interleave(K))
    with watch(ours) as shared:
        found = ours(query, memory)
    with watch(ours) as own:
        wanted = ours(query, tiled)
    torch.testing.assert_close(found, wanted, **CLOSE)
    torch.testing.assert_close(shared[""], own[""], **CLOSE)
    torch.testing.assert_close(gradients(found, [query])[0], gradients(wanted, [query])[0], **CLOSE)


@pytest.mark.parametrize("T", [1, 3])
def test_beams_that_share_a_memory_share_its_window(T: int) -> None:
    ours = read()
    entries, query = torch.randn(2, 5, D), torch.randn(4, T, D)
    memory = ours.prepare(entries, entries, padding(5, 4))
    tiled = memory.select(torch.tensor([0, 0, 1, 1]))
    torch.testing.assert_close(ours(query, memory, window=1), ours(query, tiled, window=1), **CLOSE)


def test_queries_that_cannot_share_equally_are_refused() -> None:
    ours = read()
    entries = torch.randn(2, 5, D)
    with pytest.raises(AssertionError, match="share"):
        ours(torch.randn(3, 1, D), ours.prepare(entries, entries))


# --- law 3: a memory that grows


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("window", [None, 2])
def test_reading_the_past_step_by_step_is_reading_it_at_once(name: str, window: int | None) -> None:
    ours, x = read(name), torch.randn(2, 7, D)
    whole = ours(x, ours.prepare(x, x), causal=True, window=window)
    past, found = ours.empty(2), []
    for part in x.split([2, 1, 3, 1], 1):
        new = ours.prepare(part, part)
        past = past.append(new.keys, new.values)
        found.append(ours(part, past, causal=True, window=window))
    torch.testing.assert_close(torch.cat(found, 1), whole, **CLOSE)


def test_keys_and_values_may_be_different_things() -> None:
    ours, other = read(), torch.randn(2, 5, D)
    query, keys = torch.randn(2, 3, D), torch.randn(2, 5, D)
    mixed: Memory = ours.prepare(keys, other)
    assert torch.equal(mixed.keys, ours.prepare(keys, keys).keys)
    assert torch.equal(mixed.values, ours.prepare(other, other).values)
    assert not torch.allclose(ours(query, mixed), ours(query, ours.prepare(keys, keys)))


@pytest.mark.parametrize("name", SCORES)
def test_a_read_of_doubles_answers_in_doubles(name: str) -> None:
    read = Attention("any", 4, 6, 8, 2, name).double()
    x, m = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, 6, dtype=torch.float64)
    found = read(x, read.prepare(m, m))
    assert found.dtype == torch.float64
    read.float()
    torch.testing.assert_close(found.float(), read(x.float(), read.prepare(m.float(), m.float())), rtol=1e-4, atol=1e-5)
