"""Block-local attention equals attention with a window mask: outputs, gradients, and recorded
weights.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import SCORES, Attention, local, watch

D = 8


def results_of_blocks_and_mask(
    monkeypatch: pytest.MonkeyPatch,
    attention: Attention,
    x: Tensor,
    keep: Tensor | None,
    **options: Any,
) -> list[list[Tensor]]:
    """Compute output, gradient and attention weights: in blocks, and with a mask."""
    results = []
    for pays_off in (lambda *_: True, lambda *_: False):
        monkeypatch.setattr(local, "blocks_pay_off", pays_off)
        inputs = x.clone().requires_grad_()
        with watch(attention) as readings:
            output = attention(inputs, attention.prepare(inputs, inputs, keep), **options)
        (gradient,) = torch.autograd.grad(
            (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum(), inputs
        )
        results.append([output, gradient, readings[""]])
    return results


@pytest.mark.parametrize("window", [0, 3, 20, 60])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("T", [5, 48, 53])
@pytest.mark.parametrize("score", SCORES)
def test_blocks_equal_a_window_mask(
    monkeypatch: pytest.MonkeyPatch, score: str, T: int, causal: bool, window: int
) -> None:
    attention = Attention("encoder", D, D, D, 2, score)
    for blocks, mask in zip(
        *results_of_blocks_and_mask(
            monkeypatch, attention, torch.randn(2, T, D), None, causal=causal, window=window
        ),
        strict=True,
    ):
        torch.testing.assert_close(blocks, mask, rtol=0, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_masked_entries_do_not_change_local_attention(
    monkeypatch: pytest.MonkeyPatch, causal: bool
) -> None:
    """Outputs of masked queries are undefined and not compared."""
    attention = Attention("encoder", D, D, D, 2)
    x = torch.randn(3, 50, D)
    query = torch.randn(3, 50, D)
    positions = torch.arange(50)
    keep = torch.stack([positions < 50, positions < 19, positions >= 31])
    results = []
    for filler in (0.0, torch.nan):
        x[~keep] = filler
        for pays_off in (lambda *_: True, lambda *_: False):
            monkeypatch.setattr(local, "blocks_pay_off", pays_off)
            inputs = x.clone().requires_grad_()
            output = attention(
                query, attention.prepare(inputs, inputs, keep), causal=causal, window=4
            )[keep]
            (gradient,) = torch.autograd.grad((output * torch.linspace(-1, 1, D)).sum(), inputs)
            results.append((output, gradient[keep]))
    for run in results[1:]:
        for reference, result in zip(results[0], run, strict=True):
            torch.testing.assert_close(reference, result, rtol=0, atol=1e-5)


def test_window_does_not_count_masked_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = Attention("decoder", D, D, D, 2)
    x = torch.randn(1, 50, D)
    keep = (torch.arange(50) < 10) | (torch.arange(50) >= 40)
    monkeypatch.setattr(local, "blocks_pay_off", lambda *_: True)
    full = attention(x, attention.prepare(x, x, keep[None]), causal=True, window=4)[:, keep]
    compact = x[:, keep]
    torch.testing.assert_close(
        full,
        attention(compact, attention.prepare(compact, compact), causal=True, window=4),
        rtol=0,
        atol=1e-5,
    )


def test_window_without_visible_entries_gives_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = Attention("encoder", D, D, D, 2)
    x = torch.randn(1, 50, D)
    keep = torch.arange(50)[None] < 19
    monkeypatch.setattr(local, "blocks_pay_off", lambda *_: True)
    output = attention.attend(torch.randn(1, 50, D), attention.prepare(x, x, keep), window=4)
    assert torch.equal(output[0, 23:], torch.zeros(27, D))


def test_blocks_equal_a_window_mask_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = Attention("encoder", D, D, D, 2)
    x = torch.randn(2, 50, D)
    with torch.autocast("cpu", torch.bfloat16):
        blocks, mask = results_of_blocks_and_mask(monkeypatch, attention, x, None, window=4)
    for result, reference in zip(blocks, mask, strict=True):
        torch.testing.assert_close(result.float(), reference.float(), rtol=0, atol=0.05)


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
