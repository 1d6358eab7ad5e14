"""Unfused attention equals the fused kernel: output and gradients in float32, and approximately in
bfloat16.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import SCORES, Attention, Memory, attention, watch
from regard.attention.unfused import attend_unfused

CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 2e-6}
R = 3
H = 2
T = 4
S = 6
E = 5
V = 7
SCALE = 0.37


def inputs(T: int = T, S: int = S, factor: float = 1.0) -> list[Tensor]:
    """Create query, keys and values; keys and values differ in size."""
    sizes = ((T, E), (S, E), (S, V))
    return [(torch.randn(R, H, n, size) * factor).requires_grad_() for n, size in sizes]


def gradients(output: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    """Compute gradients of a fixed random combination of the outputs."""
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(7))
    return list(torch.autograd.grad((output * direction).sum(), leaves))


def padding(*lengths: int) -> Tensor:
    return (torch.arange(S) < torch.tensor(lengths)[:, None])[:, None, None]  # (R, 1, 1, S)


def causal_mask(T: int) -> Tensor:
    """Causal mask; the last of T queries is at the last entry."""
    return torch.ones(T, S, dtype=torch.bool).tril(S - T)[None, None]


KEEP_MASKS: dict[str, Tensor | None] = {
    "no mask": None,
    "explicit mask of all entries": torch.ones(1, 1, 1, S, dtype=torch.bool),
    "padding": padding(6, 3, 1),
    "one mask for all rows": padding(4),
    "causal": causal_mask(T),
    "causal with padding": causal_mask(T) & padding(6, 4, 3),
    "random mask per query": torch.rand(R, 1, T, S, generator=torch.Generator().manual_seed(0))
    < 0.6,
    "one fully masked row": padding(6, 0, 2),
    "all rows fully masked": padding(0, 0, 0),
    "fully masked queries": causal_mask(T).roll(2, 2) & padding(6, 2, 0),
}


@pytest.mark.parametrize("name", KEEP_MASKS)
def test_unfused_output_and_gradients_equal_torch(name: str) -> None:
    keep = KEEP_MASKS[name]
    tensors = inputs()
    actual = attend_unfused(*tensors, keep, SCALE)
    expected = F.scaled_dot_product_attention(*tensors, attn_mask=keep, scale=SCALE)
    assert actual.shape == (R, H, T, V)
    torch.testing.assert_close(actual, expected, **CLOSE)
    for result, reference in zip(
        gradients(actual, tensors), gradients(expected, tensors), strict=True
    ):
        torch.testing.assert_close(result, reference, **CLOSE)


@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 6), (5, 1), (9, 2), (3, 40)])
def test_any_number_of_queries_and_entries_equals_torch(T: int, S: int) -> None:
    tensors = inputs(T, S)
    actual = attend_unfused(*tensors, None, SCALE)
    expected = F.scaled_dot_product_attention(*tensors, scale=SCALE)
    torch.testing.assert_close(actual, expected, **CLOSE)
    for result, reference in zip(
        gradients(actual, tensors), gradients(expected, tensors), strict=True
    ):
        torch.testing.assert_close(result, reference, **CLOSE)


def test_transposed_strides_do_not_change_the_output() -> None:
    tensors = inputs()
    transposed = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in tensors]
    assert not transposed[0].is_contiguous()
    keep = KEEP_MASKS["padding"]
    actual = attend_unfused(*transposed, keep, SCALE)
    expected = attend_unfused(*tensors, keep, SCALE)
    torch.testing.assert_close(actual, expected, **CLOSE)
    for result, reference in zip(
        gradients(actual, tensors), gradients(expected, tensors), strict=True
    ):
        torch.testing.assert_close(result, reference, **CLOSE)


def test_fully_masked_rows_give_zeros_and_zero_gradients() -> None:
    tensors = inputs()
    actual = attend_unfused(*tensors, padding(6, 0, 2), SCALE)
    assert torch.equal(actual[1], torch.zeros(H, T, V))
    for gradient in gradients(actual, tensors):
        assert bool(gradient.isfinite().all())
        assert torch.equal(gradient[1], torch.zeros_like(gradient[1]))
        assert bool(gradient[0].abs().amax(-1).gt(0).all())


@pytest.mark.parametrize("factor", [0.0, 1e4, -1e8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_masked_entries_do_not_change_the_output(dtype: torch.dtype, factor: float) -> None:
    keep = padding(6, 2, 0)
    tensors = [tensor.detach().to(dtype) for tensor in inputs()]
    scaled = [
        tensors[0],
        *(torch.where(keep.transpose(2, 3), tensor, tensor * factor) for tensor in tensors[1:]),
    ]
    results = []
    for case in (tensors, scaled):
        leaves = [tensor.clone().requires_grad_() for tensor in case]
        actual = attend_unfused(*leaves, keep, SCALE)
        by_query, by_keys, by_values = gradients(actual, leaves)
        hidden = ~keep.transpose(2, 3)
        assert float(by_keys.masked_select(hidden).abs().sum()) == 0
        assert float(by_values.masked_select(hidden).abs().sum()) == 0
        results.append([actual, by_query, by_keys, by_values])
    for result, reference in zip(*results, strict=True):
        assert torch.equal(result, reference)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", KEEP_MASKS)
def test_extreme_scores_give_finite_results(name: str, dtype: torch.dtype) -> None:
    query, keys, values = (tensor.detach() for tensor in inputs())
    query, keys = query.sign() * 100, keys.sign() * 100  # scores of ±1e4 and between
    tensors = [tensor.to(dtype).requires_grad_() for tensor in (query, keys, values)]
    actual = attend_unfused(*tensors, KEEP_MASKS[name], 1.0)
    scores = tensors[0] @ tensors[1].transpose(-1, -2)
    assert float(scores.detach().max()) >= 1e4
    for tensor in (actual, *gradients(actual, tensors)):
        assert bool(tensor.isfinite().all())


def test_scale_may_be_zero_or_negative() -> None:
    tensors = inputs()
    uniform = attend_unfused(*tensors, None, 0.0)
    torch.testing.assert_close(
        uniform, tensors[2].mean(2, keepdim=True).expand_as(uniform), **CLOSE
    )
    negated = attend_unfused(-tensors[0], *tensors[1:], None, -SCALE)
    torch.testing.assert_close(negated, attend_unfused(*tensors, None, SCALE), **CLOSE)


@pytest.mark.parametrize("name", KEEP_MASKS)
def test_bfloat16_is_close_to_float32(name: str) -> None:
    keep = KEEP_MASKS[name]
    exact = inputs()
    rounded = [tensor.detach().bfloat16().requires_grad_() for tensor in exact]
    actual = attend_unfused(*rounded, keep, SCALE)
    expected = attend_unfused(*exact, keep, SCALE)
    results = [[actual, *gradients(actual, rounded)], [expected, *gradients(expected, exact)]]
    for result, reference in zip(*results, strict=True):
        assert result.dtype == torch.bfloat16
        assert float((result.float() - reference).detach().norm()) <= 0.02 * float(
            reference.detach().norm()
        )


@pytest.mark.parametrize("autocast", [False, True])
def test_float32_stays_float32_under_autocast(autocast: bool) -> None:
    tensors = inputs()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        actual = attend_unfused(*tensors, None, SCALE)
        results = [actual, *gradients(actual, tensors)]
    expected = F.scaled_dot_product_attention(*tensors, scale=SCALE)
    for result, reference in zip(results, [expected, *gradients(expected, tensors)], strict=True):
        assert result.dtype == torch.float32
        torch.testing.assert_close(result, reference, **CLOSE)


def test_frozen_inputs_leave_the_other_gradients_unchanged() -> None:
    for frozen in range(3):
        tensors = inputs()
        tensors[frozen] = tensors[frozen].detach()
        trainable = [tensor for tensor in tensors if tensor.requires_grad]
        actual = gradients(attend_unfused(*tensors, None, SCALE), trainable)
        expected = gradients(F.scaled_dot_product_attention(*tensors, scale=SCALE), trainable)
        for result, reference in zip(actual, expected, strict=True):
            torch.testing.assert_close(result, reference, **CLOSE)


# --- conditions of its use


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Outputs computed by unfused attention."""
    outputs: list[Tensor] = []

    def spy(*arguments: Any) -> Tensor:
        outputs.append(attend_unfused(*arguments))
        return outputs[-1]

    monkeypatch.setattr(attention, "attend_unfused", spy)
    return outputs


def run_layer(layer: Attention, entries: int = 5, keep: Tensor | None = None) -> Tensor:
    query = torch.randn(3, 4, 12)
    memory = torch.randn(3, entries, 12)
    output: Tensor = layer(query, layer.prepare(memory, memory, keep))
    return output


@pytest.mark.parametrize("name", SCORES)
def test_cpu_autocast_is_unfused_for_dot_product_scores(name: str, calls: list[Tensor]) -> None:
    layer = Attention("cross", 12, 12, 12, 3, name)
    run_layer(layer)
    assert not calls, "float32 goes to the fused kernel"
    with torch.autocast("cpu", torch.bfloat16):
        run_layer(layer)
    assert len(calls) == (layer.score.as_dot(torch.zeros(1, 3, 1, 4)) is not None)
    assert all(output.dtype == torch.bfloat16 for output in calls)


def test_float32_memory_is_fused_under_autocast(calls: list[Tensor]) -> None:
    layer = Attention("cross", 12, 12, 12, 3)
    memory = layer.prepare(torch.randn(3, 5, 12), torch.randn(3, 5, 12))
    with torch.autocast("cpu", torch.bfloat16):
        layer(torch.randn(3, 4, 12), memory)
    assert not calls


@pytest.mark.parametrize("causal", [False, True])
def test_recorded_weights_reproduce_the_unfused_output(calls: list[Tensor], causal: bool) -> None:
    """Recorded weights times values equal the output of unfused attention."""
    layer = Attention("decoder", 12, 12, 12, 3)
    entries = torch.randn(3, 4, 12)
    keep = torch.arange(4) < torch.tensor([4, 2, 0])[:, None]
    with torch.autocast("cpu", torch.bfloat16):
        memory = layer.prepare(entries, entries, keep)
        unwatched = layer(entries, memory, causal=causal)
        with watch(layer) as readings:
            assert torch.equal(layer(entries, memory, causal=causal), unwatched)
    assert torch.equal(*calls)
    weights = readings[""].float()
    expected = torch.matmul(weights, memory.values.float()).detach()
    assert float((calls[-1].detach().float() - expected).norm() / expected.norm()) < 0.01
    assert torch.equal(weights[2], torch.zeros(3, 4, 4)), "the row is fully masked"


def test_beams_that_share_a_memory_equal_a_repeated_memory(calls: list[Tensor]) -> None:
    layer = Attention("cross", 12, 12, 12, 3)
    query = torch.randn(6, 2, 12)
    entries = torch.randn(3, 5, 12)
    keep = torch.arange(5) < torch.tensor([5, 2, 0])[:, None]
    with torch.autocast("cpu", torch.bfloat16):
        memory = layer.prepare(entries, entries, keep)
        actual = layer(query, memory)
        expected = layer(query, memory.select(torch.arange(3).repeat_interleave(2)))
    assert len(calls) == 2
    torch.testing.assert_close(actual, expected, rtol=0, atol=0.02)


def test_empty_memory_gives_the_output_bias_in_bfloat16() -> None:
    layer = Attention("cross", 12, 12, 12, 3)
    with torch.autocast("cpu", torch.bfloat16):
        memory = Memory(
            torch.zeros(3, 3, 0, 4, dtype=torch.bfloat16),
            torch.zeros(3, 3, 0, 4, dtype=torch.bfloat16),
        )
        actual = layer(torch.randn(3, 4, 12), memory)
    torch.testing.assert_close(
        actual.float(), layer.output.bias.expand(3, 4, 12).float(), rtol=0, atol=0.01
    )
