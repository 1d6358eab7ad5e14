"""One attention: the published formula, masked entries, and beams that share a memory."""

from __future__ import annotations

import itertools

import pytest
import torch
from helpers.tensor_equality import assert_all_close, gradients
from torch import Tensor, nn

from regard.attention import SCORES, Attention, masked_softmax, watch
from regard.common.errors import ConfigurationError

D = 12
EVERY_SCORE = pytest.mark.parametrize("name", SCORES)
RAW_VALUES = pytest.mark.parametrize("raw_values", [False, True])


def make_attention(
    score: str = "scaled_dot",
    raw_values: bool = False,
    entry_size: int = D,
    heads: int = 3,
) -> Attention:
    """Build an attention whose biases are not zero; without a projection of values it has one
    head.
    """
    if raw_values:
        heads = 1
    attention = Attention(
        "cross", D, entry_size, D, heads, score, project_values=not raw_values
    )
    with torch.no_grad():
        for name, parameter in attention.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    return attention


def padding(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def attend_by_loop(
    attention: Attention, query: Tensor, entries: Tensor
) -> tuple[Tensor, Tensor]:
    """Attend with one query to the entries of one row, head by head; return the output and the
    weights (H, S).
    """
    heads = attention.heads
    q = attention.query(query).unflatten(-1, (heads, -1))
    k = attention.key(entries).unflatten(-1, (heads, -1))
    v = attention.value(entries).unflatten(-1, (heads, -1))
    outputs = []
    weights = []

    for h in range(heads):
        score = type(attention.score)(1, k.shape[-1], q.shape[-1])
        of_all_heads = attention.score.state_dict()
        own_weights = {name: of_all_heads[name][h : h + 1] for name in of_all_heads}
        score.load_state_dict(own_weights)
        keys = score.prepare(k[None, None, :, h])
        scores = score(q[None, None, None, h], keys)[0, 0, 0]
        weights.append(scores.softmax(-1))
        outputs.append(weights[h] @ v[:, h])

    return attention.output(torch.cat(outputs)), torch.stack(weights)


@EVERY_SCORE
@RAW_VALUES
@pytest.mark.parametrize("causal", [False, True])
def test_attention_equals_a_loop_over_rows_heads_and_queries(
    name: str, raw_values: bool, causal: bool
) -> None:
    """PyTorch's attention is compared in `laws/test_torch_oracles.py`, with its gradients."""
    attention = make_attention(name, raw_values, entry_size=8)
    query = torch.randn(2, 4, D)
    entries = torch.randn(2, 6, 8)
    memory = attention.prepare(entries, entries, padding(6, 3))
    with watch(attention) as readings:
        actual = attention(query, memory, causal=causal)

    for row, t in itertools.product(range(2), range(4)):
        visible = (6, 3)[row]
        if causal:  # the last query is at the last entry
            visible = min(visible, 3 + t)
        output, weights = attend_by_loop(
            attention, query[row, t], entries[row, :visible]
        )
        torch.testing.assert_close(actual[row, t], output, rtol=0, atol=1e-5)
        recorded = readings[""][row, :, t]
        torch.testing.assert_close(recorded[:, :visible], weights, rtol=0, atol=1e-5)
        assert not recorded[:, visible:].any()


# --- masked entries


@EVERY_SCORE
@RAW_VALUES
def test_masked_entries_do_not_change_output_and_gradients(
    name: str, raw_values: bool
) -> None:
    attention = make_attention(name, raw_values)
    keep = padding(6, 2, 4)
    hidden = ~keep[:, :, None]
    query = torch.randn(3, 4, D, requires_grad=True)
    keys = torch.randn(3, 6, D)
    values = torch.randn(3, 6, D)
    nan_keys = keys.masked_fill(hidden, float("nan"))
    nan_values = values.masked_fill(hidden, float("nan"))
    leaves = [query, *attention.parameters()]
    expected = attention(query, attention.prepare(keys, values, keep))
    expected_gradients = gradients(expected, leaves)

    for pair in ((nan_keys, values), (keys, nan_values), (nan_keys, nan_keys)):
        with watch(attention) as readings:
            actual = attention(query, attention.prepare(*pair, keep))
        assert bool(readings[""].isfinite().all())
        actual_gradients = gradients(actual, leaves)
        assert all(bool(gradient.isfinite().all()) for gradient in actual_gradients)
        if pair[1] is not nan_keys:
            assert torch.equal(actual, expected)
            assert_all_close(actual_gradients, expected_gradients)


@EVERY_SCORE
@RAW_VALUES
def test_fully_masked_rows_give_zeros_and_finite_gradients(
    name: str, raw_values: bool
) -> None:
    attention = make_attention(name, raw_values)
    if not raw_values:
        nn.init.zeros_(attention.output.bias)
    query = torch.randn(3, 4, D, requires_grad=True)
    keys = torch.randn(3, 5, D, requires_grad=True)
    values = torch.randn(3, 5, D, requires_grad=True)

    with watch(attention) as readings:
        actual = attention(query, attention.prepare(keys, values, padding(5, 0, 2)))

    assert torch.equal(actual[1], torch.zeros(4, D))
    assert bool(actual.isfinite().all())
    assert not readings[""][1].any()

    own_gradients = gradients(actual, [keys, values, query, *attention.parameters()])

    assert not own_gradients[0][1].any()
    assert not own_gradients[1][1].any()
    assert all(bool(gradient.isfinite().all()) for gradient in own_gradients)


@pytest.mark.parametrize("name", ["scaled_dot", "additive"])
def test_empty_memory_gives_the_output_bias(name: str) -> None:
    attention = make_attention(name)
    query = torch.randn(3, 4, D, requires_grad=True)
    with watch(attention) as readings:
        actual = attention(query, attention.empty(3))

    assert torch.equal(actual, attention.output.bias.expand(3, 4, D))
    assert readings[""].shape == (3, 3, 4, 0)
    assert bool(gradients(actual, [query])[0].isfinite().all())


@pytest.mark.parametrize("size", [1e4, 3e38])
def test_extreme_scores_give_no_weight_to_masked_entries(size: float) -> None:
    scores = torch.tensor([[-size, size, 0.0], [-size, -size, size]])[None, None]
    keep = torch.tensor([[True, False, False], [True, True, False]])[None, None]
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])[None, None]

    torch.testing.assert_close(masked_softmax(scores, keep), expected)


# --- other inputs


def test_queries_that_are_no_multiple_of_the_rows_are_refused() -> None:
    attention = make_attention()
    entries = torch.randn(2, 5, D)

    with pytest.raises(AssertionError, match="share"):
        attention(torch.randn(3, 1, D), attention.prepare(entries, entries))


@pytest.mark.parametrize("name", ["scaled_dot", "additive"])
def test_float64_attention_computes_in_float64(name: str) -> None:
    attention = make_attention(name)
    query = torch.randn(2, 3, D)
    entries = torch.randn(2, 5, D)
    rounded = attention(query, attention.prepare(entries, entries))
    attention.double()
    memory = attention.prepare(entries.double(), entries.double())
    exact = attention(query.double(), memory)

    assert exact.dtype == torch.float64
    torch.testing.assert_close(exact.float(), rounded, rtol=1e-4, atol=1e-5)


def test_heads_that_do_not_fit_are_refused_with_all_causes() -> None:
    with pytest.raises(ConfigurationError) as refused:
        Attention("cross", D, D, D, 5, project_keys=False)

    size, keys = refused.value.causes

    assert "size 12 cannot be split into 5 heads" in size
    assert "without project_keys takes one head" in keys
