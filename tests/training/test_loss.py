"""Training losses: computed in slices, they equal the plain formulas in value and in every
gradient.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from laws.models import batched, entry_keep, kinds, make
from torch import Tensor

from regard.attention import Attention, record_attention
from regard.data.batch import Example, TrainingBatch
from regard.data.vocabulary import EOS, PAD
from regard.models import Batch, Model, ModelSettings
from regard.training.loss import SLICE, Objective, rdrop_cross_entropy, smoothed_cross_entropy

D = 12
V = 37
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}


def inputs(count: int, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    features = torch.randn(count, D) * scale
    weight = torch.randn(V, D)
    bias = torch.randn(V)
    return (
        features.requires_grad_(),
        weight.requires_grad_(),
        bias.requires_grad_(),
        torch.randint(0, V, (count,)),
    )


def plain(
    features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
) -> Tensor:
    return F.cross_entropy(
        features @ weight.T + bias, targets, label_smoothing=smoothing, reduction="sum"
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("count", [1, 5, SLICE - 1, SLICE, SLICE + 1, 2 * SLICE + 77])
def test_the_loss_equals_torch_in_value_and_gradients(count: int, smoothing: float) -> None:
    features, weight, bias, targets = inputs(count)
    smoothed, entropy = smoothed_cross_entropy(features, weight, bias, targets, smoothing)
    expected = plain(features, weight, bias, targets, smoothing)
    torch.testing.assert_close(smoothed, expected, **CLOSE)
    torch.testing.assert_close(
        entropy, plain(features, weight, bias, targets, 0.0).detach(), **CLOSE
    )
    assert not entropy.requires_grad
    parameters = [features, weight, bias]
    gradients = torch.autograd.grad(smoothed, parameters)
    for gradient, expected_gradient in zip(
        gradients, torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(gradient, expected_gradient, **CLOSE)


def test_the_slices_of_a_gpu_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Off the CPU a slice holds as many rows as a number of logits allows: here 400 and all 700."""
    losses = []
    parameters = inputs(700)
    for rows in (SLICE, 400, 10_000):
        monkeypatch.setattr("regard.training.loss._rows_at_once", lambda *_, rows=rows: rows)
        smoothed, entropy = smoothed_cross_entropy(*parameters, 0.1)
        losses.append([smoothed, entropy, *torch.autograd.grad(smoothed, parameters[:3])])
    for other in losses[1:]:
        for actual, expected in zip(other, losses[0], strict=True):
            torch.testing.assert_close(actual, expected, **CLOSE)


@pytest.mark.parametrize("factor", [1 / 100, -3.0])
def test_the_gradient_of_a_multiple_is_the_multiple_of_the_gradient(factor: float) -> None:
    features, weight, bias, targets = inputs(300)
    parameters = [features, weight, bias]
    gradients = torch.autograd.grad(
        smoothed_cross_entropy(features, weight, bias, targets, 0.1)[0] * factor, parameters
    )
    expected_gradients = torch.autograd.grad(
        plain(features, weight, bias, targets, 0.1) * factor, parameters
    )
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, **CLOSE)


def test_tied_weights_get_both_gradients() -> None:
    _, weight, bias, targets = inputs(300)
    tokens = torch.randint(0, V, (300,))

    def features() -> Tensor:
        return (weight[tokens] * 2).tanh()

    gradients = torch.autograd.grad(
        smoothed_cross_entropy(features(), weight, bias, targets, 0.1)[0], [weight, bias]
    )
    expected_gradients = torch.autograd.grad(
        plain(features(), weight, bias, targets, 0.1), [weight, bias]
    )
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, **CLOSE)


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_frozen_inputs_get_no_gradient_and_the_rest_are_unchanged(frozen: int) -> None:
    arguments = list(inputs(70))
    targets = arguments.pop()
    arguments[frozen] = arguments[frozen].detach()
    parameters = [argument for argument in arguments if argument.requires_grad]
    gradients = torch.autograd.grad(smoothed_cross_entropy(*arguments, targets, 0.1)[0], parameters)
    for gradient, expected_gradient in zip(
        gradients, torch.autograd.grad(plain(*arguments, targets, 0.1), parameters), strict=True
    ):
        torch.testing.assert_close(gradient, expected_gradient, **CLOSE)


def test_without_gradients_the_value_is_the_same() -> None:
    features, weight, bias, targets = inputs(300)
    expected = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
    with torch.no_grad():
        actual = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
    for value, expected_value in zip(actual, expected, strict=True):
        torch.testing.assert_close(value, expected_value.detach(), rtol=0, atol=0)


def test_very_large_logits_give_no_nan() -> None:
    features, weight, bias, targets = inputs(40, scale=1e4)
    smoothed, _ = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
    torch.testing.assert_close(
        smoothed, plain(features, weight, bias, targets, 0.1), rtol=1e-4, atol=1e-2
    )
    for gradient in torch.autograd.grad(smoothed, [features, weight, bias]):
        assert bool(gradient.isfinite().all())


def test_the_loss_of_no_positions_is_zero() -> None:
    features, weight, bias, targets = inputs(0)
    smoothed, entropy = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
    assert (float(smoothed.detach()), float(entropy)) == (0.0, 0.0)
    for gradient in torch.autograd.grad(smoothed, [features, weight, bias]):
        assert float(gradient.abs().sum()) == 0


def test_bfloat16_is_close() -> None:
    features, weight, bias, targets = inputs(300)
    parameters = [features, weight, bias]
    expected = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        autocast = smoothed_cross_entropy(features, weight, bias, targets, 0.1)
        low_precision = smoothed_cross_entropy(features.bfloat16(), weight, bias, targets, 0.1)
    for losses in (autocast, low_precision):
        assert losses[0].dtype == torch.float32
        assert losses[0].item() == pytest.approx(expected[0].item(), rel=1e-2)
        assert losses[1].item() == pytest.approx(expected[1].item(), rel=1e-2)
    expected_gradients = torch.autograd.grad(expected[0], parameters)
    for loss in (autocast[0], low_precision[0]):
        for gradient, expected_gradient, parameter in zip(
            torch.autograd.grad(loss, parameters), expected_gradients, parameters, strict=True
        ):
            assert gradient.dtype == parameter.dtype
            assert float((gradient - expected_gradient).norm() / expected_gradient.norm()) < 0.02


# --- the objective


PAIRS = [([5, 6, 7], [8, 9]), ([4], [10, 11, 12, 13, 5]), ([9, 9, 4, 8], []), ([6, 5], [4, 4, 7])]
EXAMPLES = [Example([*source, EOS], [*target, EOS]) for source, target in PAIRS]


@pytest.mark.parametrize("settings", kinds())
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_objective_is_the_cross_entropy_of_all_tokens_but_padding(
    settings: ModelSettings, smoothing: float
) -> None:
    model = make(settings)
    batch = batched(settings, EXAMPLES)
    loss = Objective(model, smoothing)(batch)
    logits = model.project(model(Batch(batch.source, batch.source_keep), batch.target_in))
    flat = logits.flatten(0, 1)
    targets = batch.target_out.flatten()
    expected = F.cross_entropy(
        flat, targets, ignore_index=PAD, reduction="sum", label_smoothing=smoothing
    )
    assert loss.tokens == sum(len(example.target) for example in EXAMPLES)
    torch.testing.assert_close(loss.smoothed, expected, **CLOSE)
    plain_loss = F.cross_entropy(flat, targets, ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(loss.cross_entropy, plain_loss.detach(), **CLOSE)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss.smoothed, parameters, allow_unused=True)
    expected_gradients = torch.autograd.grad(expected, parameters, allow_unused=True)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        assert gradient is not None
        torch.testing.assert_close(gradient, expected_gradient, **CLOSE)


@pytest.mark.parametrize("settings", kinds())
def test_the_loss_of_a_batch_is_the_sum_of_the_losses_of_its_sentences(
    settings: ModelSettings,
) -> None:
    objective = Objective(make(settings), 0.1)
    whole = objective(batched(settings, EXAMPLES))
    parts = [objective(batched(settings, [example])) for example in EXAMPLES]
    torch.testing.assert_close(
        whole.smoothed, torch.stack([part.smoothed for part in parts]).sum(), **CLOSE
    )
    torch.testing.assert_close(
        whole.cross_entropy, torch.stack([part.cross_entropy for part in parts]).sum(), **CLOSE
    )
    assert whole.tokens == sum(part.tokens for part in parts)


@pytest.mark.parametrize("settings", kinds("target"))
def test_a_step_against_the_gradient_makes_the_loss_smaller(settings: ModelSettings) -> None:
    objective = Objective(make(settings), 0.1)
    batch = batched(settings, EXAMPLES)
    # Unscaled dot products: a steeper loss.
    rate = 1e-5 if settings.decoder.kind == "convolutional" else 1e-4
    optimizer = torch.optim.SGD(objective.parameters(), rate)
    losses = []
    for _ in range(4):
        loss = objective(batch).smoothed
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert all(after < before for before, after in pairwise(losses))


# --- R-Drop


def paired(count: int, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Draw the features of two passes, weight, bias and targets."""
    first, weight, bias, targets = inputs(count, scale)
    return (
        first,
        (first.detach() + 0.5 * torch.randn(count, D)).requires_grad_(),
        weight,
        bias,
        targets,
    )


def plain_paired(
    first: Tensor,
    second: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    smoothing: float,
    rdrop: float,
) -> Tensor:
    """Equations 1 to 3 of Liang et al. 2021, halved."""
    log_probs = [(features @ weight.T + bias).log_softmax(-1) for features in (first, second)]
    entropies = [
        F.cross_entropy(log_prob, targets, label_smoothing=smoothing, reduction="sum")
        for log_prob in log_probs
    ]
    divergences = [
        F.kl_div(q, p, reduction="sum", log_target=True) for p, q in (log_probs, log_probs[::-1])
    ]
    return torch.stack(entropies).mean() + rdrop / 2 * torch.stack(divergences).mean()


@pytest.mark.parametrize(("smoothing", "rdrop"), [(0.0, 1.0), (0.1, 5.0), (0.7, 0.3)])
@pytest.mark.parametrize(
    "count", [1, 5, SLICE // 2 - 1, SLICE // 2, SLICE // 2 + 1, SLICE, 2 * SLICE + 77]
)
def test_rdrop_equals_its_formula_in_value_and_gradients(
    count: int, smoothing: float, rdrop: float
) -> None:
    *parameters, targets = paired(count)
    loss, entropy = rdrop_cross_entropy(*parameters, targets, smoothing, rdrop)
    expected = plain_paired(*parameters, targets, smoothing, rdrop)
    torch.testing.assert_close(loss, expected, **CLOSE)
    torch.testing.assert_close(
        entropy, plain_paired(*parameters, targets, 0.0, 0.0).detach(), **CLOSE
    )
    assert not entropy.requires_grad
    for gradient, expected_gradient in zip(
        torch.autograd.grad(loss, parameters),
        torch.autograd.grad(expected, parameters),
        strict=True,
    ):
        torch.testing.assert_close(gradient, expected_gradient, **CLOSE)


@pytest.mark.parametrize("count", [3, SLICE + 10])
def test_rdrop_of_two_equal_passes_is_the_smoothed_loss(count: int) -> None:
    features, weight, bias, targets = inputs(count)
    parameters = [features, weight, bias]
    actual = rdrop_cross_entropy(features, features.clone(), weight, bias, targets, 0.1, 5.0)
    expected = smoothed_cross_entropy(*parameters, targets, 0.1)
    for value, expected_value in zip(actual, expected, strict=True):
        torch.testing.assert_close(value, expected_value, **CLOSE)
    results = [torch.autograd.grad(loss, parameters) for loss in (actual[0], expected[0])]
    for value, expected_value in zip(*results, strict=True):
        torch.testing.assert_close(value, expected_value, **CLOSE)


def test_rdrop_is_symmetric_in_the_two_passes() -> None:
    first, second, weight, bias, targets = paired(SLICE)
    results = []
    for pair in ((first, second), (second, first)):
        loss, entropy = rdrop_cross_entropy(*pair, weight, bias, targets, 0.1, 5.0)
        results.append([loss, entropy, *torch.autograd.grad(loss, [first, second, weight, bias])])
    for value, swapped_value in zip(*results, strict=True):
        torch.testing.assert_close(value, swapped_value, **CLOSE)


@pytest.mark.parametrize("factor", [1 / 100, -3.0])
def test_the_gradient_of_a_multiple_of_rdrop_is_the_multiple_of_the_gradient(factor: float) -> None:
    *parameters, targets = paired(300)
    gradients = torch.autograd.grad(
        rdrop_cross_entropy(*parameters, targets, 0.1, 5.0)[0] * factor, parameters
    )
    expected_gradients = torch.autograd.grad(
        plain_paired(*parameters, targets, 0.1, 5.0) * factor, parameters
    )
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, **CLOSE)


@pytest.mark.parametrize("frozen", [0, 1, 2, 3])
def test_frozen_inputs_of_rdrop_get_no_gradient_and_the_rest_are_unchanged(frozen: int) -> None:
    *arguments, targets = paired(70)
    arguments[frozen] = arguments[frozen].detach()
    parameters = [argument for argument in arguments if argument.requires_grad]
    gradients = torch.autograd.grad(
        rdrop_cross_entropy(*arguments, targets, 0.1, 5.0)[0], parameters
    )
    expected_gradients = torch.autograd.grad(
        plain_paired(*arguments, targets, 0.1, 5.0), parameters
    )
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, **CLOSE)


def test_rdrop_of_very_large_logits_gives_no_nan() -> None:
    *parameters, targets = paired(40, scale=1e4)
    loss, _ = rdrop_cross_entropy(*parameters, targets, 0.1, 5.0)
    torch.testing.assert_close(
        loss, plain_paired(*parameters, targets, 0.1, 5.0), rtol=1e-4, atol=1e-2
    )
    for gradient in torch.autograd.grad(loss, parameters):
        assert bool(gradient.isfinite().all())


def test_rdrop_of_no_positions_is_zero() -> None:
    *parameters, targets = paired(0)
    loss, entropy = rdrop_cross_entropy(*parameters, targets, 0.1, 5.0)
    assert (float(loss.detach()), float(entropy)) == (0.0, 0.0)
    for gradient in torch.autograd.grad(loss, parameters):
        assert float(gradient.abs().sum()) == 0


def test_rdrop_in_bfloat16_is_close() -> None:
    *parameters, targets = paired(300)
    expected = rdrop_cross_entropy(*parameters, targets, 0.1, 5.0)
    with torch.autocast("cpu", torch.bfloat16):
        autocast = rdrop_cross_entropy(*parameters, targets, 0.1, 5.0)
        low_precision = rdrop_cross_entropy(
            *(features.bfloat16() for features in parameters[:2]),
            *parameters[2:],
            targets,
            0.1,
            5.0,
        )
    expected_gradients = torch.autograd.grad(expected[0], parameters)
    for loss, entropy in (autocast, low_precision):
        assert loss.dtype == torch.float32
        assert loss.item() == pytest.approx(expected[0].item(), rel=1e-2)
        assert entropy.item() == pytest.approx(expected[1].item(), rel=1e-2)
        for gradient, expected_gradient, parameter in zip(
            torch.autograd.grad(loss, parameters), expected_gradients, parameters, strict=True
        ):
            assert gradient.dtype == parameter.dtype
            assert float((gradient - expected_gradient).norm() / expected_gradient.norm()) < 0.03


@pytest.mark.parametrize("paired_loss", [False, True])
def test_a_second_backward_pass_is_an_error_and_not_a_wrong_number(paired_loss: bool) -> None:
    first, second, weight, bias, targets = paired(300)
    parameters = [first, weight, bias]
    if paired_loss:
        loss, _ = rdrop_cross_entropy(first, second, weight, bias, targets, 0.1, 5.0)
    else:
        loss, _ = smoothed_cross_entropy(first, weight, bias, targets, 0.1)
    torch.autograd.grad(loss * 3, parameters, retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, parameters)


@pytest.mark.parametrize("settings", kinds())
def test_rdrop_without_dropout_equals_the_plain_objective(settings: ModelSettings) -> None:
    model = make(settings)
    batch = batched(settings, EXAMPLES)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    losses = [Objective(model, 0.1, rdrop)(batch) for rdrop in (5.0, 0.0)]
    assert losses[0].tokens == losses[1].tokens
    torch.testing.assert_close(losses[0].smoothed, losses[1].smoothed, **CLOSE)
    torch.testing.assert_close(losses[0].cross_entropy, losses[1].cross_entropy, **CLOSE)
    gradients, expected_gradients = (
        torch.autograd.grad(loss.smoothed, parameters) for loss in losses
    )
    # Whose last bits are rounded.
    largest = max(1.0, *(float(gradient.abs().max()) for gradient in expected_gradients))
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient / largest, expected_gradient / largest, **CLOSE)


def with_dropout(settings: ModelSettings) -> ModelSettings:
    """Return the same settings with dropout."""
    sides = (settings.encoder, settings.decoder)
    encoder, decoder = (side.with_values(dropout=0.3) for side in sides)
    return ModelSettings(encoder=encoder, decoder=decoder, share=settings.share)


@pytest.mark.parametrize("settings", kinds())
def test_the_objective_with_rdrop_equals_its_formula_over_two_passes(
    settings: ModelSettings,
) -> None:
    model = make(with_dropout(settings)).train()
    batch = batched(settings, EXAMPLES)
    keep = batch.target_out.flatten() != PAD
    torch.manual_seed(3)
    loss = Objective(model, 0.1, 5.0)(batch).smoothed
    torch.manual_seed(3)
    passes = [
        model(Batch(batch.source, batch.source_keep), batch.target_in).flatten(0, 1)[keep]
        for _ in range(2)
    ]
    assert not torch.equal(*passes)
    output = model.decoder.output
    targets = batch.target_out.flatten()[keep]
    expected = plain_paired(*passes, output.weight, output.bias, targets, 0.1, 5.0)
    torch.testing.assert_close(loss, expected, **CLOSE)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients = torch.autograd.grad(loss, parameters)
    expected_gradients = torch.autograd.grad(expected, parameters)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-4, atol=1e-3)


# --- doubly stochastic attention


def doubly_stochastic_penalty(model: Model, batch: TrainingBatch) -> float:
    """Equation 14 of Show, Attend and Tell, sentence by sentence and entry by entry."""
    penalties = []
    with torch.no_grad(), record_attention(model) as readings:
        model(Batch(batch.source, batch.source_keep), batch.target_in)
    keep = entry_keep(model, Batch(batch.source, batch.source_keep))
    attentions = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, Attention) and module.role == "cross"
    }
    for name in attentions:
        for head in range(attentions[name].heads):
            penalty = 0.0
            for row, target in enumerate(batch.target_out):
                for entry in keep[row].nonzero()[:, 0]:
                    attended = readings[name][row, head, target != PAD, entry].sum()
                    penalty += float((1 - attended) ** 2)
            penalties.append(penalty)
    return sum(penalties) / max(1, len(penalties))


@pytest.mark.parametrize("settings", kinds())
def test_the_doubly_stochastic_penalty_is_the_published_sum(settings: ModelSettings) -> None:
    model = make(settings)
    batch = batched(settings, EXAMPLES)
    plain = Objective(model, 0.1)(batch)
    penalised = Objective(model, 0.1, doubly_stochastic=0.7)(batch)
    assert (penalised.smoothed - plain.smoothed).item() == pytest.approx(
        0.7 * doubly_stochastic_penalty(model, batch), rel=1e-4, abs=1e-3
    )
    assert torch.equal(penalised.cross_entropy, plain.cross_entropy)
    with_rdrop = Objective(model, 0.1, 5.0, doubly_stochastic=0.7)(batch).smoothed
    torch.testing.assert_close(with_rdrop, penalised.smoothed, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "settings", [p for p in kinds() if p.values[0].decoder.kind != "no_attention"]
)
def test_training_with_the_penalty_makes_attention_more_even(settings: ModelSettings) -> None:
    model = make(settings)
    batch = batched(settings, EXAMPLES)
    before = doubly_stochastic_penalty(model, batch)
    optimizer = torch.optim.SGD([p for p in model.decoder.parameters() if p.requires_grad], 1e-4)
    for _ in range(4):
        optimizer.zero_grad()
        loss = (
            Objective(model, 0.1, doubly_stochastic=1.0)(batch).smoothed
            - Objective(model, 0.1)(batch).smoothed
        )
        loss.backward()
        optimizer.step()
    assert doubly_stochastic_penalty(model, batch) < before - 1e-4


# --- several captions of one image


@pytest.mark.parametrize("settings", kinds())
def test_captions_of_one_image_count_like_separate_examples(settings: ModelSettings) -> None:
    model = make(settings)
    batch = batched(settings, EXAMPLES)
    second = batched(
        settings,
        [
            Example(first.source, last.target)
            for first, last in zip(EXAMPLES, EXAMPLES[::-1], strict=True)
        ],
    )
    T = max(batch.target_in.shape[1], second.target_in.shape[1])
    stacked = {
        name: torch.stack(
            [
                F.pad(getattr(b, name), (0, T - b.target_in.shape[1]), value=PAD)
                for b in (batch, second)
            ],
            1,
        )
        for name in ("target_in", "target_out")
    }
    whole = replace(
        batch,
        tokens=batch.tokens + second.tokens,
        **{name: x.flatten(0, 1) for name, x in stacked.items()},
    )
    objective = Objective(model, 0.1, doubly_stochastic=0.5)
    loss = objective(whole)
    separate = [objective(captions) for captions in (batch, second)]
    torch.testing.assert_close(loss.smoothed, separate[0].smoothed + separate[1].smoothed, **CLOSE)
    torch.testing.assert_close(
        loss.cross_entropy, separate[0].cross_entropy + separate[1].cross_entropy, **CLOSE
    )
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    gradients, expected_gradients = (
        torch.autograd.grad(x, parameters)
        for x in (loss.smoothed, separate[0].smoothed + separate[1].smoothed)
    )
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-3, atol=1e-3)
    parts = [objective(part) for part in whole.split(2)]
    torch.testing.assert_close(sum(part.smoothed for part in parts), loss.smoothed, **CLOSE)
    assert sum(part.tokens for part in parts) == loss.tokens
