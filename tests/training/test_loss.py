"""The loss in slices is the loss in one piece: value, and every gradient."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from laws.models import make, pairs
from torch import Tensor

from regard.data.batching import Example, collate
from regard.data.tokenizer import EOS, PAD
from regard.models import Batch, ModelSettings
from regard.training.loss import SLICE, Objective, smoothed_cross_entropy

D, V = 12, 37
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}


def inputs(count: int, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    features = torch.randn(count, D) * scale
    weight, bias = torch.randn(V, D), torch.randn(V)
    return features.requires_grad_(), weight.requires_grad_(), bias.requires_grad_(), torch.randint(0, V, (count,))


def plain(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    return F.cross_entropy(features @ weight.T + bias, targets, label_smoothing=smoothing, reduction="sum")


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("count", [1, 5, SLICE - 1, SLICE, SLICE + 1, 2 * SLICE + 77])
def test_the_loss_equals_torch_in_value_and_gradients(count: int, smoothing: float) -> None:
    features, weight, bias, targets = inputs(count)
    smoothed, entropy = smoothed_cross_entropy(features, weight, bias, targets, smoothing)
    wanted = plain(features, weight, bias, targets, smoothing)
    torch.testing.assert_close(smoothed, wanted, **CLOSE)
    torch.testing.assert_close(entropy, plain(features, weight, bias, targets, 0.0).detach(), **CLOSE)
    assert not entropy.requires_grad
    learnt = [features, weight, bias]
    found = torch.autograd.grad(smoothed, learnt)
    for one, other in zip(found, torch.autograd.grad(wanted, learnt), strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("factor", [1 / 100, -3.0])
def test_the_gradient_of_a_multiple_is_the_multiple_of_the_gradient(factor: float) -> None:
    features, weight, bias, targets = inputs(300)
    learnt = [features, weight, bias]
    found = torch.autograd.grad(smoothed_cross_entropy(features, weight, bias, targets, 0.1)[0] * factor, learnt)
    wanted = torch.autograd.grad(plain(features, weight, bias, targets, 0.1) * factor, learnt)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def test_tied_weights_get_both_gradients() -> None:
    _, weight, bias, targets = inputs(300)
    pieces = torch.randint(0, V, (300,))

    def features() -> Tensor:
        return (weight[pieces] * 2).tanh()

    found = torch.autograd.grad(smoothed_cross_entropy(features(), weight, bias, targets, 0.1)[0], [weight, bias])
    wanted = torch.autograd.grad(plain(features(), weight, bias, targets, 0.1), [weight, bias])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_is_frozen_gets_no_gradient_and_the_others_theirs(frozen: int) -> None:
    parts = list(inputs(70))
    targets = parts.pop()
    parts[frozen] = parts[frozen].detach()
    learnt = [part for part in parts if part.requires_grad]
    found = torch.autograd.grad(smoothed_cross_entropy(*parts, targets, 0.1)[0], learnt)
    for one, other in zip(found, torch.autograd.grad(plain(*parts, targets, 0.1), learnt), strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def test_without_gradients_the_value_is_the_same() -> None:
    features, weight, bias, targets = inputs(300)
    wanted = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
    with torch.no_grad():
        found = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=0, atol=0)


def test_logits_as_large_as_they_come_give_no_nan() -> None:
    features, weight, bias, targets = inputs(40, scale=1e4)
    smoothed, _ = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
    torch.testing.assert_close(smoothed, plain(features, weight, bias, targets, 0.1), rtol=1e-4, atol=1e-2)
    for gradient in torch.autograd.grad(smoothed, [features, weight, bias]):
        assert bool(gradient.isfinite().all())


def test_no_position_costs_nothing() -> None:
    features, weight, bias, targets = inputs(0)
    smoothed, entropy = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
    assert (float(smoothed.detach()), float(entropy)) == (0.0, 0.0)
    for gradient in torch.autograd.grad(smoothed, [features, weight, bias]):
        assert float(gradient.abs().sum()) == 0


def test_bfloat16_is_close() -> None:
    features, weight, bias, targets = inputs(300)
    learnt = [features, weight, bias]
    wanted = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        found = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
        low = smoothed_cross_entropy(features.bfloat16(), weight, bias, targets, 0.1)
    for one in (found, low):
        assert one[0].dtype == torch.float32
        assert one[0].item() == pytest.approx(wanted[0].item(), rel=1e-2)
        assert one[1].item() == pytest.approx(wanted[1].item(), rel=1e-2)
    exact = torch.autograd.grad(wanted[0], learnt)
    for loss in (found[0], low[0]):
        for mine, other, of in zip(torch.autograd.grad(loss, learnt), exact, learnt, strict=True):
            assert mine.dtype == of.dtype
            assert float((mine - other).norm() / other.norm()) < 0.02


# --- the objective


PAIRS = [([5, 6, 7], [8, 9]), ([4], [10, 11, 12, 13, 5]), ([9, 9, 4, 8], []), ([6, 5], [4, 4, 7])]
EXAMPLES = [Example([*source, EOS], [*target, EOS]) for source, target in PAIRS]


@pytest.mark.parametrize("settings", pairs(1))
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_objective_is_the_cross_entropy_of_the_real_pieces(settings: ModelSettings, smoothing: float) -> None:
    model = make(settings)
    batch = collate(EXAMPLES)
    loss = Objective(model, smoothing)(batch)
    logits = model.project(model(Batch(batch.source, batch.source_keep), batch.target_in))
    flat, targets = logits.flatten(0, 1), batch.target_out.flatten()
    wanted = F.cross_entropy(flat, targets, ignore_index=PAD, reduction="sum", label_smoothing=smoothing)
    assert loss.tokens == sum(len(example.target) for example in EXAMPLES)
    torch.testing.assert_close(loss.smoothed, wanted, **CLOSE)
    plain_loss = F.cross_entropy(flat, targets, ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(loss.entropy, plain_loss.detach(), **CLOSE)
    learnt = list(model.parameters())
    found = torch.autograd.grad(loss.smoothed, learnt, allow_unused=True)
    exact = torch.autograd.grad(wanted, learnt, allow_unused=True)
    for one, other in zip(found, exact, strict=True):
        assert one is not None
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("settings", pairs(1))
def test_the_loss_of_a_batch_is_the_sum_of_the_losses_of_its_sentences(settings: ModelSettings) -> None:
    objective = Objective(make(settings), 0.1)
    whole = objective(collate(EXAMPLES))
    parts = [objective(collate([example])) for example in EXAMPLES]
    torch.testing.assert_close(whole.smoothed, torch.stack([part.smoothed for part in parts]).sum(), **CLOSE)
    torch.testing.assert_close(whole.entropy, torch.stack([part.entropy for part in parts]).sum(), **CLOSE)
    assert whole.tokens == sum(part.tokens for part in parts)


@pytest.mark.parametrize("settings", pairs(1, "target"))
def test_a_step_against_the_gradient_makes_the_loss_smaller(settings: ModelSettings) -> None:
    objective, batch = Objective(make(settings), 0.1), collate(EXAMPLES)
    optimizer, losses = torch.optim.SGD(objective.parameters(), 1e-4), []
    for _ in range(4):
        loss = objective(batch).smoothed
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert all(after < before for before, after in pairwise(losses))
