"""Unfused attention equals the fused kernel: output and gradients in float32, and approximately in
bfloat16.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.tensor_equality import assert_all_close, assert_all_near, with_gradients
from torch import Tensor

from regard.attention import SCORES, Attention, attention
from regard.attention.unfused import attend_unfused

R = 3
H = 2
T = 4
S = 6
SCALE = 0.37


def inputs(T: int = T, S: int = S) -> list[Tensor]:
    """Create query, keys and values; keys and values differ in size."""
    shapes = ((R, H, T, 5), (R, H, S, 5), (R, H, S, 7))
    return [torch.randn(shape).requires_grad_() for shape in shapes]


def padding(*lengths: int) -> Tensor:
    keep = torch.arange(S) < torch.tensor(lengths)[:, None]
    return keep[:, None, None]  # (R, 1, 1, S)


CAUSAL = torch.ones(T, S, dtype=torch.bool).tril(S - T)[None, None]
KEEP_MASKS: dict[str, Tensor | None] = {
    "no mask": None,
    "all entries": torch.ones(1, 1, 1, S, dtype=torch.bool),
    "one mask for all rows": padding(4),
    "causal with padding": CAUSAL & padding(6, 4, 3),
    "one fully masked row": padding(6, 0, 2),
    "all rows fully masked": padding(0, 0, 0),
    "fully masked queries": CAUSAL.roll(2, 2) & padding(6, 2, 0),
}
EVERY_MASK = pytest.mark.parametrize("keep", KEEP_MASKS.values(), ids=list(KEEP_MASKS))
EVERY_DTYPE = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])


@EVERY_MASK
def test_unfused_output_and_gradients_equal_torch(keep: Tensor | None) -> None:
    tensors = inputs()
    actual = attend_unfused(*tensors, keep, SCALE)
    expected = F.scaled_dot_product_attention(*tensors, attn_mask=keep, scale=SCALE)

    assert_all_close(
        with_gradients([actual], tensors), with_gradients([expected], tensors)
    )

    rounded = [tensor.detach().bfloat16().requires_grad_() for tensor in tensors]
    low = with_gradients([attend_unfused(*rounded, keep, SCALE)], rounded)

    assert all(tensor.dtype == torch.bfloat16 for tensor in low)
    assert_all_near(low, with_gradients([expected], tensors), 0.02)


@pytest.mark.parametrize(("T", "S"), [(1, 1), (5, 1), (3, 40)])
def test_any_number_of_queries_and_entries_equals_torch_also_under_autocast(
    T: int, S: int
) -> None:
    tensors = inputs(T, S)
    with torch.autocast("cpu", torch.bfloat16):
        actual = with_gradients([attend_unfused(*tensors, None, SCALE)], tensors)
    expected = F.scaled_dot_product_attention(*tensors, scale=SCALE)

    assert_all_close(actual, with_gradients([expected], tensors))


def test_transposed_strides_do_not_change_the_output() -> None:
    tensors = inputs()
    transposed = [
        tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in tensors
    ]
    keep = padding(6, 3, 1)
    actual = attend_unfused(*transposed, keep, SCALE)
    expected = attend_unfused(*tensors, keep, SCALE)

    assert_all_close(
        with_gradients([actual], tensors), with_gradients([expected], tensors)
    )


@EVERY_DTYPE
def test_masked_entries_do_not_change_the_output(dtype: torch.dtype) -> None:
    keep = padding(6, 2, 0)
    hidden = ~keep.transpose(2, 3)
    query, keys, values = (tensor.detach().to(dtype) for tensor in inputs())
    other_keys = torch.where(hidden, keys * -1e8, keys)
    other_values = torch.where(hidden, values * -1e8, values)
    results = []

    for case in ((query, keys, values), (query, other_keys, other_values)):
        leaves = [tensor.clone().requires_grad_() for tensor in case]
        result = with_gradients([attend_unfused(*leaves, keep, SCALE)], leaves)
        for gradient in result[2:]:
            assert not gradient.masked_select(hidden).any()
        results.append(result)

    assert_all_close(results[0], results[1], rtol=0, atol=0)


@EVERY_DTYPE
def test_extreme_scores_give_finite_results(dtype: torch.dtype) -> None:
    keep = KEEP_MASKS["fully masked queries"]
    query, keys, values = (tensor.detach() for tensor in inputs())
    # Scores of ±1e4 and between.
    large = (query.sign() * 100, keys.sign() * 100, values)
    tensors = [tensor.to(dtype).requires_grad_() for tensor in large]

    for tensor in with_gradients([attend_unfused(*tensors, keep, 1.0)], tensors):
        assert bool(tensor.isfinite().all())


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


@pytest.mark.parametrize("name", SCORES)
def test_cpu_autocast_is_unfused_for_dot_product_scores(
    name: str, calls: list[Tensor]
) -> None:
    layer = Attention("cross", 12, 12, 12, 3, name)
    query = torch.randn(3, 4, 12)
    entries = torch.randn(3, 5, 12)
    exact_memory = layer.prepare(entries, entries)
    expected = layer(query, exact_memory)

    with torch.autocast("cpu", torch.bfloat16):
        layer(query, exact_memory)
        assert not calls, "float32 goes to the fused kernel"
        actual = layer(query, layer.prepare(entries, entries))

    assert len(calls) == (name != "additive")
    assert all(output.dtype == torch.bfloat16 for output in calls)
    assert_all_near([actual], [expected], 0.03)


def test_no_entries_give_zeros() -> None:
    assert torch.equal(
        attend_unfused(*inputs(S=0), None, SCALE), torch.zeros(R, H, T, 7)
    )
