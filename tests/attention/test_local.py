"""Block-local attention equals attention with a window mask: outputs, gradients, and recorded
weights.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.tensor_equality import assert_all_close, with_gradients
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import Attention, local, watch

D = 8


def by_blocks_and_by_mask(
    monkeypatch: pytest.MonkeyPatch,
    attention: Attention,
    query: Tensor,
    entries: Tensor,
    keep: Tensor | None,
    **options: Any,
) -> list[list[Tensor]]:
    """Compute output, gradient of the entries and attention weights, with and without blocks.

    Outputs of masked queries are undefined and left out.
    """
    visible = torch.ones(entries.shape[:2], dtype=torch.bool) if keep is None else keep
    results = []

    for pays_off in (lambda *_: True, lambda *_: False):
        monkeypatch.setattr(local, "blocks_pay_off", pays_off)
        leaf = entries.clone().requires_grad_()
        with watch(attention) as readings:
            output = attention(query, attention.prepare(leaf, leaf, keep), **options)[
                visible
            ]
        output, gradient = with_gradients([output], [leaf])
        weights = readings[""].transpose(1, 2)
        results.append([output, gradient[visible], weights[visible]])

    return results


@pytest.mark.parametrize("window", [0, 3, 20, 60])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("T", "score"), [(5, "additive"), (48, "cosine"), (53, "scaled_dot")]
)
def test_blocks_equal_a_window_mask(
    monkeypatch: pytest.MonkeyPatch, score: str, T: int, causal: bool, window: int
) -> None:
    attention = Attention("encoder", D, D, D, 2, score)
    x = torch.randn(2, T, D)
    blocks, mask = by_blocks_and_by_mask(
        monkeypatch, attention, x, x, None, causal=causal, window=window
    )

    assert_all_close(blocks, mask)


@pytest.mark.parametrize("causal", [False, True])
def test_masked_entries_do_not_change_local_attention(
    monkeypatch: pytest.MonkeyPatch, causal: bool
) -> None:
    attention = Attention("encoder", D, D, D, 2)
    query = torch.randn(4, 50, D)
    entries = torch.randn(4, 50, D)
    positions = torch.arange(50)
    gap = (positions < 10) | (positions >= 40)
    keep = torch.stack([positions < 50, positions < 19, positions >= 31, gap])

    for kept in (keep, keep[:3]):
        rows = len(kept)
        results = []
        for filler in (0.0, torch.nan):
            filled = entries[:rows].masked_fill(~kept[:, :, None], filler)
            results += by_blocks_and_by_mask(
                monkeypatch,
                attention,
                query[:rows],
                filled,
                kept,
                causal=causal,
                window=4,
            )
        for other in results[1:]:
            assert_all_close(other, results[0])


def test_cost_is_linear_in_the_length() -> None:
    """Twice the length costs twice as much; with a mask it would cost four times as much."""
    attention = Attention("encoder", D, D, D, score_name="additive")

    def flops(T: int) -> int:
        x = torch.randn(1, T, D)
        query = attention.query(x)
        memory = attention.prepare(x, x)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            attention.attend(query, memory, window=4)
        return int(counter.get_total_flops())

    assert local.blocks_pay_off(160, 4)
    assert not local.blocks_pay_off(30, 4)
    assert flops(320) == 2 * flops(160)
