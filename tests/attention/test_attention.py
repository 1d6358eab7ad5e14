"""Laws 1, 2, 3 and 4 for one attention: published formula, masked entries, KV cache, beams that
share a memory.
"""

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


def make_attention(
    score: str = "scaled_dot",
    heads: int = 3,
    entry_size: int = D,
    raw_values: bool = False,
    seed: int = 0,
) -> Attention:
    """Build an attention whose biases are not zero."""
    torch.manual_seed(seed)
    attention = Attention("cross", D, entry_size, D, heads, score, project_values=not raw_values)
    with torch.no_grad():
        for name, parameter in attention.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    return attention


def padding(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def without_fused_kernel(attention: Attention) -> Attention:
    """Replace the fused kernel by scores, weights and weighted sum."""

    class Unfused(ScaledDot):
        def as_dot(self, query: Tensor) -> None:  # type: ignore[override]  # noqa: ARG002
            return None

        def forward(self, query: Tensor, prepared: Tensor) -> Tensor:
            return query @ prepared.transpose(-1, -2) / query.shape[-1] ** 0.5

    attention.score = Unfused(attention.heads, attention.size // attention.heads)
    return attention


def gradients(output: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """Compute gradients of a fixed random combination of the outputs."""
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(7))
    return list(torch.autograd.grad((output * direction).sum(), leaves))


# --- law 1: the published formula


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("entry_size", [D, 7])
def test_attention_equals_torch_multi_head_attention(
    causal: bool, masked: bool, heads: int, entry_size: int
) -> None:
    ours = make_attention(heads=heads, entry_size=entry_size)
    theirs = nn.MultiheadAttention(D, heads, kdim=entry_size, vdim=entry_size, batch_first=True)
    weights = (ours.query.weight, ours.key.weight, ours.value.weight)
    with torch.no_grad():
        if entry_size == D:
            theirs.in_proj_weight.copy_(torch.cat(weights))
        else:
            separate = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
            for parameter, weight in zip(separate, weights, strict=True):
                parameter.copy_(weight)
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)

    T = 5
    S = 5
    keep = padding(5, 3, 1) if masked else None
    query, keys, values = (
        torch.randn(3, n, d, requires_grad=True)
        for n, d in ((T, D), (S, entry_size), (S, entry_size))
    )
    with watch(ours) as readings:
        actual = ours(query, ours.prepare(keys, values, keep), causal=causal)
    hidden = torch.ones(T, S, dtype=torch.bool).triu(1) if causal else None
    masks: dict[str, Any] = {
        "key_padding_mask": None if keep is None else ~keep,
        "attn_mask": hidden,
    }
    expected, by_head = theirs(
        query, keys, values, need_weights=True, average_attn_weights=False, **masks
    )
    _, mean = theirs(query, keys, values, need_weights=True, average_attn_weights=True, **masks)

    torch.testing.assert_close(actual, expected, **CLOSE)
    torch.testing.assert_close(readings[""], by_head.detach(), **CLOSE)
    torch.testing.assert_close(readings[""].mean(1), mean.detach(), **CLOSE)
    inputs = [query, keys, values]
    for result, reference in zip(
        gradients(actual, inputs), gradients(expected, inputs), strict=True
    ):
        torch.testing.assert_close(result, reference, **CLOSE)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("raw_values", [False, True])
def test_attention_equals_a_loop_over_rows_heads_and_queries(name: str, raw_values: bool) -> None:
    heads = 1 if raw_values else 3
    attention = make_attention(name, heads, 8, raw_values)
    keep = padding(6, 2)
    query = torch.randn(2, 4, D)
    entries = torch.randn(2, 6, 8)
    actual = attention(query, attention.prepare(entries, entries, keep))
    for r, t in itertools.product(range(2), range(4)):
        visible = entries[r, : int(keep[r].sum())]
        q, k, v = (
            x.unflatten(-1, (heads, -1))
            for x in (
                attention.query(query[r, t]),
                attention.key(visible),
                attention.value(visible),
            )
        )
        outputs = []
        for h in range(heads):
            pair = [x[None, None] for x in (q[None, h], k[:, h])]
            score = type(attention.score)(1, k.shape[-1], q.shape[-1])
            score.load_state_dict(
                {n: p[h : h + 1] for n, p in attention.score.state_dict().items()}
            )
            weights = score(pair[0], score.prepare(pair[1]))[0, 0, 0].exp()
            outputs.append((weights / weights.sum()) @ v[:, h])
        torch.testing.assert_close(actual[r, t], attention.output(torch.cat(outputs)), **CLOSE)


MASKS = {
    "no mask": (None, {}),
    "padding": (padding(6, 3), {}),
    "empty row": (padding(6, 0), {}),
    "causal": (None, {"causal": True}),
    "causal with padding": (padding(6, 4), {"causal": True}),
    "window": (None, {"window": 1}),
    "causal window with padding": (padding(6, 2), {"causal": True, "window": 2}),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("T", [1, 4, 6])
def test_fused_output_and_gradients_equal_unfused(mask: str, T: int) -> None:
    keep, options = MASKS[mask]
    query, keys, values = (torch.randn(2, n, D, requires_grad=True) for n in (T, 6, 6))
    results = []
    for attention in (make_attention(), without_fused_kernel(make_attention())):
        actual = attention(query, attention.prepare(keys, values, keep), **options)
        leaves = [
            parameter
            for name, parameter in attention.named_parameters()
            if not name.startswith("score")
        ]
        results.append([actual, *gradients(actual, [query, keys, values, *leaves])])
    assert all(bool(tensor.isfinite().all()) for tensor in results[0])
    for fused, unfused in zip(*results, strict=True):
        torch.testing.assert_close(fused, unfused, **CLOSE)


# --- law 2: masked entries


@pytest.mark.parametrize("filler", [float("nan"), float("inf"), -float("inf"), 1e30])
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("raw_values", [False, True])
def test_masked_entries_do_not_change_the_output(
    name: str, raw_values: bool, filler: float
) -> None:
    attention = make_attention(name, 1 if raw_values else 3, raw_values=raw_values)
    keep = padding(6, 2, 4)
    query = torch.randn(3, 4, D)
    keys = torch.randn(3, 6, D)
    values = torch.randn(3, 6, D)
    expected = attention(query, attention.prepare(keys, values, keep))
    filled = [entries.masked_fill(~keep[:, :, None], filler) for entries in (keys, values)]
    for pair in ((filled[0], values), (keys, filled[1]), (filled[0], filled[1])):
        assert torch.equal(attention(query, attention.prepare(*pair, keep)), expected)
        with watch(attention) as readings:
            assert torch.equal(attention(query, attention.prepare(*pair, keep)), expected)
        assert bool(readings[""].isfinite().all())


@pytest.mark.parametrize("name", SCORES)
def test_masked_entries_do_not_change_gradients(name: str) -> None:
    attention = make_attention(name)
    keep = padding(6, 2, 4)
    query = torch.randn(3, 4, D, requires_grad=True)
    entries = torch.randn(3, 6, D)
    leaves = [query, *attention.parameters()]
    expected = gradients(attention(query, attention.prepare(entries, entries, keep)), leaves)
    filled = entries.masked_fill(~keep[:, :, None], 3.0)
    for result, reference in zip(
        gradients(attention(query, attention.prepare(filled, filled, keep)), leaves),
        expected,
        strict=True,
    ):
        torch.testing.assert_close(result, reference, **CLOSE)


@pytest.mark.parametrize("name", SCORES)
def test_masked_nan_does_not_reach_gradients(name: str) -> None:
    attention = make_attention(name)
    keep = padding(6, 2, 4)
    query = torch.randn(3, 4, D, requires_grad=True)
    entries = torch.randn(3, 6, D)
    filled = entries.masked_fill(~keep[:, :, None], float("nan"))
    actual = attention(query, attention.prepare(filled, filled, keep))
    for gradient in gradients(actual, [query, *attention.parameters()]):
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("causal", [False, True])
def test_weights_sum_to_one_and_are_zero_at_masked_entries(name: str, causal: bool) -> None:
    attention = make_attention(name)
    keep = padding(6, 2, 4)
    with watch(attention) as readings:
        attention(
            torch.randn(3, 6, D),
            attention.prepare(torch.randn(3, 6, D), torch.randn(3, 6, D), keep),
            causal=causal,
        )
    weights = readings[""]
    visible = keep[:, None, None, :] & (
        torch.ones(6, 6).tril().bool() if causal else torch.ones(6, 6).bool()
    )
    assert weights.shape == (3, 3, 6, 6)
    assert bool((weights >= 0).all())
    assert weights.masked_fill(visible, 0).abs().max() == 0
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 3, 6), **CLOSE)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("raw_values", [False, True])
def test_fully_masked_rows_give_zeros_and_finite_gradients(name: str, raw_values: bool) -> None:
    attention = make_attention(name, 1 if raw_values else 3, raw_values=raw_values)
    keep = padding(5, 0, 2)
    if not raw_values:
        nn.init.zeros_(attention.output.bias)
    query, keys, values = (torch.randn(3, n, D, requires_grad=True) for n in (4, 5, 5))
    with watch(attention) as readings:
        actual = attention(query, attention.prepare(keys, values, keep))
    assert torch.equal(actual[1], torch.zeros(4, D))
    assert bool(actual.isfinite().all())
    assert torch.equal(readings[""][1], torch.zeros_like(readings[""][1]))
    for gradient in gradients(actual, [query, keys, values, *attention.parameters()]):
        assert bool(gradient.isfinite().all())
    assert all(
        float(g[1].abs().max()) == 0
        for g in gradients(attention(query, attention.prepare(keys, values, keep)), [keys, values])
    )


@pytest.mark.parametrize("name", SCORES)
def test_empty_memory_gives_the_output_bias(name: str) -> None:
    attention = make_attention(name)
    query = torch.randn(3, 4, D, requires_grad=True)
    with watch(attention) as readings:
        actual = attention(query, attention.empty(3))
    assert torch.equal(actual, attention.output.bias.expand(3, 4, D))
    assert readings[""].shape == (3, 3, 4, 0)
    assert bool(gradients(actual, [query])[0].isfinite().all())


def test_masking_before_the_softmax_equals_zeroing_and_renormalising_after_it() -> None:
    scores = torch.randn(3, 2, 4, 6) * 3
    keep = torch.rand(3, 1, 4, 6) < 0.7
    keep[..., 0] = True
    zeroed = scores.softmax(-1) * keep
    torch.testing.assert_close(
        masked_softmax(scores, keep), zeroed / zeroed.sum(-1, keepdim=True), **CLOSE
    )
    minus_infinity = scores.masked_fill(~keep, -torch.inf).softmax(-1)
    torch.testing.assert_close(masked_softmax(scores, keep), minus_infinity, **CLOSE)


@pytest.mark.parametrize("size", [1e4, 1e30, 3e38])
def test_extreme_scores_give_no_weight_to_masked_entries(size: float) -> None:
    scores = torch.tensor([[-size, size, 0.0], [-size, -size, size]])[None, None]
    keep = torch.tensor([[True, False, False], [True, True, False]])[None, None]
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])[None, None]
    torch.testing.assert_close(masked_softmax(scores, keep), expected, **CLOSE)


# --- law 4: several queries to each row of a memory


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("K", "T"), [(1, 3), (4, 1), (3, 2)])
@pytest.mark.parametrize("raw_values", [False, True])
def test_beams_that_share_a_memory_equal_beams_with_separate_memories(
    name: str, masked: bool, K: int, T: int, raw_values: bool
) -> None:
    attention = make_attention(name, 1 if raw_values else 3, raw_values=raw_values)
    entries = torch.randn(2, 5, D)
    query = torch.randn(2 * K, T, D, requires_grad=True)
    memory = attention.prepare(entries, entries, padding(5, 2) if masked else None)
    tiled = memory.select(torch.arange(2).repeat_interleave(K))
    with watch(attention) as shared:
        actual = attention(query, memory)
    with watch(attention) as separate:
        expected = attention(query, tiled)
    torch.testing.assert_close(actual, expected, **CLOSE)
    torch.testing.assert_close(shared[""], separate[""], **CLOSE)
    torch.testing.assert_close(
        gradients(actual, [query])[0], gradients(expected, [query])[0], **CLOSE
    )


@pytest.mark.parametrize("T", [1, 3])
def test_beams_that_share_a_memory_use_the_same_window(T: int) -> None:
    attention = make_attention()
    entries = torch.randn(2, 5, D)
    query = torch.randn(4, T, D)
    memory = attention.prepare(entries, entries, padding(5, 4))
    tiled = memory.select(torch.tensor([0, 0, 1, 1]))
    torch.testing.assert_close(
        attention(query, memory, window=1), attention(query, tiled, window=1), **CLOSE
    )


def test_queries_that_are_no_multiple_of_the_rows_are_refused() -> None:
    attention = make_attention()
    entries = torch.randn(2, 5, D)
    with pytest.raises(AssertionError, match="share"):
        attention(torch.randn(3, 1, D), attention.prepare(entries, entries))


# --- law 3: KV cache


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("window", [None, 2])
def test_attention_step_by_step_equals_attention_at_once(name: str, window: int | None) -> None:
    attention = make_attention(name)
    x = torch.randn(2, 7, D)
    full = attention(x, attention.prepare(x, x), causal=True, window=window)
    cache = attention.empty(2)
    outputs = []
    for chunk in x.split([2, 1, 3, 1], 1):
        new = attention.prepare(chunk, chunk)
        cache = cache.append(new.keys, new.values)
        outputs.append(attention(chunk, cache, causal=True, window=window))
    torch.testing.assert_close(torch.cat(outputs, 1), full, **CLOSE)


def test_keys_and_values_may_differ() -> None:
    attention = make_attention()
    values = torch.randn(2, 5, D)
    query = torch.randn(2, 3, D)
    keys = torch.randn(2, 5, D)
    mixed: Memory = attention.prepare(keys, values)
    assert torch.equal(mixed.keys, attention.prepare(keys, keys).keys)
    assert torch.equal(mixed.values, attention.prepare(values, values).values)
    assert not torch.allclose(
        attention(query, mixed), attention(query, attention.prepare(keys, keys))
    )


@pytest.mark.parametrize("name", SCORES)
def test_float64_attention_returns_float64(name: str) -> None:
    attention = Attention("any", 4, 6, 8, 2, name).double()
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    m = torch.randn(2, 5, 6, dtype=torch.float64)
    actual = attention(x, attention.prepare(m, m))
    assert actual.dtype == torch.float64
    attention.float()
    torch.testing.assert_close(
        actual.float(),
        attention(x.float(), attention.prepare(m.float(), m.float())),
        rtol=1e-4,
        atol=1e-5,
    )
