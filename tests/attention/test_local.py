"""Block-local attention equals attention with a window mask: outputs, gradients, and recorded weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import SCORES, Attention, local, watch

D = 8


def both(
    monkeypatch: pytest.MonkeyPatch, read: Attention, x: Tensor, keep: Tensor | None, **how: Any
) -> list[list[Tensor]]:
    """Answers, gradient and readings: in blocks, and with a mask."""
    found = []
    for pays in (lambda *_: True, lambda *_: False):
        monkeypatch.setattr(local, "blocks_pay_off", pays)
        given = x.clone().requires_grad_()
        with watch(read) as readings:
            answer = read(given, read.prepare(given, given, keep), **how)
        (gradient,) = torch.autograd.grad((answer * torch.linspace(-1, 1, answer.numel()).view_as(answer)).sum(), given)
        found.append([answer, gradient, readings[""]])
    return found


@pytest.mark.parametrize("window", [0, 3, 20, 60])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("T", [5, 48, 53])
@pytest.mark.parametrize("score", SCORES)
def test_blocks_are_a_mask(monkeypatch: pytest.MonkeyPatch, score: str, T: int, causal: bool, window: int) -> None:
    read = Attention("encoder", D, D, D, 2, score)
    for blocks, mask in zip(
        *both(monkeypatch, read, torch.randn(2, T, D), None, causal=causal, window=window), strict=True
    ):
        torch.testing.assert_close(blocks, mask, rtol=0, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_what_is_hidden_stays_hidden(monkeypatch: pytest.MonkeyPatch, causal: bool) -> None:
    """Answers of hidden queries are nobody's: they are left out."""
    read, x, query = Attention("encoder", D, D, D, 2), torch.randn(3, 50, D), torch.randn(3, 50, D)
    places = torch.arange(50)
    keep = torch.stack([places < 50, places < 19, places >= 31])
    found = []
    for hidden in (0.0, torch.nan):
        x[~keep] = hidden
        for pays in (lambda *_: True, lambda *_: False):
            monkeypatch.setattr(local, "blocks_pay_off", pays)
            given = x.clone().requires_grad_()
            answer = read(query, read.prepare(given, given, keep), causal=causal, window=4)[keep]
            (gradient,) = torch.autograd.grad((answer * torch.linspace(-1, 1, D)).sum(), given)
            found.append((answer, gradient[keep]))
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-5)


def test_a_window_reaches_over_what_is_hidden_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    read, x = Attention("decoder", D, D, D, 2), torch.randn(1, 50, D)
    keep = (torch.arange(50) < 10) | (torch.arange(50) >= 40)
    monkeypatch.setattr(local, "blocks_pay_off", lambda *_: True)
    whole = read(x, read.prepare(x, x, keep[None]), causal=True, window=4)[:, keep]
    short = x[:, keep]
    torch.testing.assert_close(whole, read(short, read.prepare(short, short), causal=True, window=4), rtol=0, atol=1e-5)


def test_nothing_near_answers_nought(monkeypatch: pytest.MonkeyPatch) -> None:
    read, x, keep = Attention("encoder", D, D, D, 2), torch.randn(1, 50, D), torch.arange(50)[None] < 19
    monkeypatch.setattr(local, "blocks_pay_off", lambda *_: True)
    answer = read.attend(torch.randn(1, 50, D), read.prepare(x, x, keep), window=4)
    assert torch.equal(answer[0, 23:], torch.zeros(27, D))


def test_low_precision_is_read_in_blocks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    read, x = Attention("encoder", D, D, D, 2), torch.randn(2, 50, D)
    with torch.autocast("cpu", torch.bfloat16):
        blocks, mask = both(monkeypatch, read, x, None, window=4)
    for one, other in zip(blocks, mask, strict=True):
        torch.testing.assert_close(one.float(), other.float(), rtol=0, atol=0.05)


def test_the_cost_is_that_of_the_window() -> None:
    """Twice as long costs twice as much, where a mask would cost four times as much."""
    read = Attention("encoder", D, D, D, score_name="additive")

    def flops(T: int) -> int:
        x = torch.randn(1, T, D)
        query, memory = read.query(x), read.prepare(x, x)
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            read.attend(query, memory, window=4)
        return int(counter.get_total_flops())

    assert local.blocks_pay_off(160, 4)
    assert not local.blocks_pay_off(30, 4)
    assert flops(320) == 2 * flops(160)
