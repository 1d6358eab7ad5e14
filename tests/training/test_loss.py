"""Training losses: in slices they equal the plain ones, in value and in every gradient."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from laws.models import batched, entry_keep, make, pairs
from torch import Tensor

from regard.attention import Attention, watch
from regard.data.batch import Example, TrainingBatch
from regard.data.vocabulary import EOS, PAD
from regard.models import Batch, Model, ModelSettings
from regard.training.loss import SLICE, Objective, rdrop_cross_entropy, smoothed_cross_entropy

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
    batch = batched(settings, EXAMPLES)
    loss = Objective(model, smoothing)(batch)
    logits = model.project(model(Batch(batch.source, batch.source_keep), batch.target_in))
    flat, targets = logits.flatten(0, 1), batch.target_out.flatten()
    wanted = F.cross_entropy(flat, targets, ignore_index=PAD, reduction="sum", label_smoothing=smoothing)
    assert loss.tokens == sum(len(example.target) for example in EXAMPLES)
    torch.testing.assert_close(loss.smoothed, wanted, **CLOSE)
    plain_loss = F.cross_entropy(flat, targets, ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(loss.cross_entropy, plain_loss.detach(), **CLOSE)
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = torch.autograd.grad(loss.smoothed, learnt, allow_unused=True)
    exact = torch.autograd.grad(wanted, learnt, allow_unused=True)
    for one, other in zip(found, exact, strict=True):
        assert one is not None
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("settings", pairs(1))
def test_the_loss_of_a_batch_is_the_sum_of_the_losses_of_its_sentences(settings: ModelSettings) -> None:
    objective = Objective(make(settings), 0.1)
    whole = objective(batched(settings, EXAMPLES))
    parts = [objective(batched(settings, [example])) for example in EXAMPLES]
    torch.testing.assert_close(whole.smoothed, torch.stack([part.smoothed for part in parts]).sum(), **CLOSE)
    torch.testing.assert_close(whole.cross_entropy, torch.stack([part.cross_entropy for part in parts]).sum(), **CLOSE)
    assert whole.tokens == sum(part.tokens for part in parts)


@pytest.mark.parametrize("settings", pairs(1, "target"))
def test_a_step_against_the_gradient_makes_the_loss_smaller(settings: ModelSettings) -> None:
    objective, batch = Objective(make(settings), 0.1), batched(settings, EXAMPLES)
    rate = 1e-5 if settings.decoder.kind == "convolutional" else 1e-4  # unscaled dots: steeper
    optimizer, losses = torch.optim.SGD(objective.parameters(), rate), []
    for _ in range(4):
        loss = objective(batch).smoothed
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert all(after < before for before, after in pairwise(losses))


# --- R-Drop


def paired(count: int, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The features of two passes, weight, bias and targets."""
    first, weight, bias, targets = inputs(count, scale)
    return first, (first.detach() + 0.5 * torch.randn(count, D)).requires_grad_(), weight, bias, targets


def plain_paired(
    first: Tensor, second: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float, rdrop: float
) -> Tensor:
    """Equations 1 to 3 of Liang et al. 2021, halved."""
    logs = [(features @ weight.T + bias).log_softmax(-1) for features in (first, second)]
    likely = [F.cross_entropy(log, targets, label_smoothing=smoothing, reduction="sum") for log in logs]
    apart = [F.kl_div(q, p, reduction="sum", log_target=True) for p, q in (logs, logs[::-1])]
    return torch.stack(likely).mean() + rdrop / 2 * torch.stack(apart).mean()


@pytest.mark.parametrize(("smoothing", "rdrop"), [(0.0, 1.0), (0.1, 5.0), (0.7, 0.3)])
@pytest.mark.parametrize("count", [1, 5, SLICE // 2 - 1, SLICE // 2, SLICE // 2 + 1, SLICE, 2 * SLICE + 77])
def test_rdrop_equals_its_formula_in_value_and_gradients(count: int, smoothing: float, rdrop: float) -> None:
    *learnt, targets = paired(count)
    found, entropy = rdrop_cross_entropy(*learnt, targets, smoothing, rdrop)
    wanted = plain_paired(*learnt, targets, smoothing, rdrop)
    torch.testing.assert_close(found, wanted, **CLOSE)
    torch.testing.assert_close(entropy, plain_paired(*learnt, targets, 0.0, 0.0).detach(), **CLOSE)
    assert not entropy.requires_grad
    for one, other in zip(torch.autograd.grad(found, learnt), torch.autograd.grad(wanted, learnt), strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("count", [3, SLICE + 10])
def test_rdrop_of_two_equal_passes_is_the_smoothed_loss(count: int) -> None:
    features, weight, bias, targets = inputs(count)
    learnt = [features, weight, bias]
    found = rdrop_cross_entropy(features, features.clone(), weight, bias, targets, 0.1, 5.0)
    wanted = smoothed_cross_entropy(*learnt, targets, 0.1)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)
    results = [torch.autograd.grad(loss, learnt) for loss in (found[0], wanted[0])]
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def test_rdrop_does_not_ask_which_pass_came_first() -> None:
    first, second, weight, bias, targets = paired(SLICE)
    results = []
    for pair in ((first, second), (second, first)):
        loss, entropy = rdrop_cross_entropy(*pair, weight, bias, targets, 0.1, 5.0)
        results.append([loss, entropy, *torch.autograd.grad(loss, [first, second, weight, bias])])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("factor", [1 / 100, -3.0])
def test_the_gradient_of_a_multiple_of_rdrop_is_the_multiple_of_the_gradient(factor: float) -> None:
    *learnt, targets = paired(300)
    found = torch.autograd.grad(rdrop_cross_entropy(*learnt, targets, 0.1, 5.0)[0] * factor, learnt)
    wanted = torch.autograd.grad(plain_paired(*learnt, targets, 0.1, 5.0) * factor, learnt)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("frozen", [0, 1, 2, 3])
def test_rdrop_gives_what_is_frozen_no_gradient_and_the_others_theirs(frozen: int) -> None:
    *parts, targets = paired(70)
    parts[frozen] = parts[frozen].detach()
    learnt = [part for part in parts if part.requires_grad]
    found = torch.autograd.grad(rdrop_cross_entropy(*parts, targets, 0.1, 5.0)[0], learnt)
    wanted = torch.autograd.grad(plain_paired(*parts, targets, 0.1, 5.0), learnt)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def test_rdrop_of_logits_as_large_as_they_come_gives_no_nan() -> None:
    *learnt, targets = paired(40, scale=1e4)
    loss, _ = rdrop_cross_entropy(*learnt, targets, 0.1, 5.0)
    torch.testing.assert_close(loss, plain_paired(*learnt, targets, 0.1, 5.0), rtol=1e-4, atol=1e-2)
    for gradient in torch.autograd.grad(loss, learnt):
        assert bool(gradient.isfinite().all())


def test_rdrop_of_no_position_costs_nothing() -> None:
    *learnt, targets = paired(0)
    loss, entropy = rdrop_cross_entropy(*learnt, targets, 0.1, 5.0)
    assert (float(loss.detach()), float(entropy)) == (0.0, 0.0)
    for gradient in torch.autograd.grad(loss, learnt):
        assert float(gradient.abs().sum()) == 0


def test_rdrop_in_bfloat16_is_close() -> None:
    *learnt, targets = paired(300)
    wanted = rdrop_cross_entropy(*learnt, targets, 0.1, 5.0)
    with torch.autocast("cpu", torch.bfloat16):
        found = rdrop_cross_entropy(*learnt, targets, 0.1, 5.0)
        low = rdrop_cross_entropy(*(part.bfloat16() for part in learnt[:2]), *learnt[2:], targets, 0.1, 5.0)
    exact = torch.autograd.grad(wanted[0], learnt)
    for loss, entropy in (found, low):
        assert loss.dtype == torch.float32
        assert loss.item() == pytest.approx(wanted[0].item(), rel=1e-2)
        assert entropy.item() == pytest.approx(wanted[1].item(), rel=1e-2)
        for mine, other, of in zip(torch.autograd.grad(loss, learnt), exact, learnt, strict=True):
            assert mine.dtype == of.dtype
            assert float((mine - other).norm() / other.norm()) < 0.03


@pytest.mark.parametrize("paired_loss", [False, True])
def test_going_back_twice_is_an_error_and_not_a_wrong_number(paired_loss: bool) -> None:
    first, second, weight, bias, targets = paired(300)
    learnt = [first, weight, bias]
    if paired_loss:
        loss, _ = rdrop_cross_entropy(first, second, weight, bias, targets, 0.1, 5.0)
    else:
        loss, _ = smoothed_cross_entropy(first, weight, bias, targets, 0.1)
    torch.autograd.grad(loss * 3, learnt, retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, learnt)


@pytest.mark.parametrize("settings", pairs(1))
def test_the_objective_with_rdrop_is_the_one_without_where_nothing_is_dropped(settings: ModelSettings) -> None:
    model, batch = make(settings), batched(settings, EXAMPLES)
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    losses = [Objective(model, 0.1, rdrop)(batch) for rdrop in (5.0, 0.0)]
    assert losses[0].tokens == losses[1].tokens
    torch.testing.assert_close(losses[0].smoothed, losses[1].smoothed, **CLOSE)
    torch.testing.assert_close(losses[0].cross_entropy, losses[1].cross_entropy, **CLOSE)
    found, wanted = (torch.autograd.grad(loss.smoothed, learnt) for loss in losses)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def dropping(settings: ModelSettings) -> ModelSettings:
    """The same model with dropout."""
    sides = (settings.encoder, settings.decoder)
    encoder, decoder = (side.with_values(dropout=0.3) for side in sides)
    return ModelSettings(encoder=encoder, decoder=decoder, share=settings.share)


@pytest.mark.parametrize("settings", pairs(1))
def test_the_objective_with_rdrop_is_the_formula_of_two_passes(settings: ModelSettings) -> None:
    model, batch = make(dropping(settings)).train(), batched(settings, EXAMPLES)
    real = batch.target_out.flatten() != PAD
    torch.manual_seed(3)
    loss = Objective(model, 0.1, 5.0)(batch).smoothed
    torch.manual_seed(3)
    passes = [model(Batch(batch.source, batch.source_keep), batch.target_in).flatten(0, 1)[real] for _ in range(2)]
    assert not torch.equal(*passes)
    output, targets = model.decoder.output, batch.target_out.flatten()[real]
    wanted = plain_paired(*passes, output.weight, output.bias, targets, 0.1, 5.0)
    torch.testing.assert_close(loss, wanted, **CLOSE)
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found, exact = torch.autograd.grad(loss, learnt), torch.autograd.grad(wanted, learnt)
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


# --- attention that looks at everything once


def uneven(model: Model, batch: TrainingBatch) -> float:
    """Equation 14 of Show, Attend and Tell, sentence by sentence and entry by entry."""
    total = []
    with torch.no_grad(), watch(model) as readings:
        model(Batch(batch.source, batch.source_keep), batch.target_in)
    kept = entry_keep(model, Batch(batch.source, batch.source_keep))
    reads = {name: part for name, part in model.named_modules() if isinstance(part, Attention) and part.role == "cross"}
    for name in reads:
        for head in range(reads[name].heads):
            sums = 0.0
            for row, target in enumerate(batch.target_out):
                for entry in kept[row].nonzero()[:, 0]:
                    looked = readings[name][row, head, target != PAD, entry].sum()
                    sums += float((1 - looked) ** 2)
            total.append(sums)
    return sum(total) / max(1, len(total))


@pytest.mark.parametrize("settings", pairs(1))
def test_doubly_stochastic_attention_is_the_published_sum(settings: ModelSettings) -> None:
    model, batch = make(settings), batched(settings, EXAMPLES)
    plain, even = Objective(model, 0.1)(batch), Objective(model, 0.1, doubly_stochastic=0.7)(batch)
    assert (even.smoothed - plain.smoothed).item() == pytest.approx(0.7 * uneven(model, batch), rel=1e-4, abs=1e-3)
    assert torch.equal(even.cross_entropy, plain.cross_entropy)
    with_rdrop = Objective(model, 0.1, 5.0, doubly_stochastic=0.7)(batch).smoothed
    torch.testing.assert_close(with_rdrop, even.smoothed, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("settings", [p for p in pairs(1) if p.values[0].decoder.kind != "no_attention"])
def test_what_is_learnt_from_it_looks_more_evenly(settings: ModelSettings) -> None:
    model, batch = make(settings), batched(settings, EXAMPLES)
    before = uneven(model, batch)
    optimizer = torch.optim.SGD([p for p in model.decoder.parameters() if p.requires_grad], 1e-4)
    for _ in range(3):
        optimizer.zero_grad()
        loss = Objective(model, 0.1, doubly_stochastic=1.0)(batch).smoothed - Objective(model, 0.1)(batch).smoothed
        loss.backward()
        optimizer.step()
    assert uneven(model, batch) < before - 1e-4


# --- several captions of one picture


@pytest.mark.parametrize("settings", pairs(1))
def test_captions_of_one_picture_count_as_if_each_came_alone(settings: ModelSettings) -> None:
    model, batch = make(settings), batched(settings, EXAMPLES)
    again = batched(
        settings, [Example(one.source, two.target) for one, two in zip(EXAMPLES, EXAMPLES[::-1], strict=True)]
    )
    T = max(batch.target_in.shape[1], again.target_in.shape[1])
    both = {
        name: torch.stack(
            [F.pad(getattr(b, name), (0, T - b.target_in.shape[1]), value=PAD) for b in (batch, again)], 1
        )
        for name in ("target_in", "target_out")
    }
    whole = replace(batch, tokens=batch.tokens + again.tokens, **{name: x.flatten(0, 1) for name, x in both.items()})
    objective = Objective(model, 0.1, doubly_stochastic=0.5)
    found, wanted = objective(whole), [objective(one) for one in (batch, again)]
    torch.testing.assert_close(found.smoothed, wanted[0].smoothed + wanted[1].smoothed, **CLOSE)
    torch.testing.assert_close(found.cross_entropy, wanted[0].cross_entropy + wanted[1].cross_entropy, **CLOSE)
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    mine, theirs = (torch.autograd.grad(x, learnt) for x in (found.smoothed, wanted[0].smoothed + wanted[1].smoothed))
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
    parts = [objective(part) for part in whole.split(2)]
    torch.testing.assert_close(sum(part.smoothed for part in parts), found.smoothed, **CLOSE)
    assert sum(part.tokens for part in parts) == found.tokens
