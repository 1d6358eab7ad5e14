"""Training losses: computed in slices, they equal the plain formulas in value and in every
gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from helpers.tensor_equality import (
    assert_all_close,
    assert_all_near,
    gradients,
    with_gradients,
)
from laws.models import batched, entry_keep, kinds, make
from torch import Tensor, nn

from regard.attention import Attention, record_attention
from regard.data.batch import Example, TrainingBatch
from regard.data.vocabulary import EOS, PAD
from regard.models import Batch, Model, ModelSettings
from regard.training.loss import (
    SLICE,
    Objective,
    rdrop_cross_entropy,
    smoothed_cross_entropy,
)

D = 12
V = 37
RDROP = 5.0
EVERY_KIND = pytest.mark.parametrize("settings", kinds())
LossFunction = Callable[..., tuple[Tensor, Tensor]]


def inputs(count: int, scale: float = 1.0) -> tuple[list[Tensor], Tensor]:
    """Draw the features of two passes, weight and bias, and the targets."""
    first = torch.randn(count, D) * scale
    second = first + 0.5 * torch.randn(count, D)
    leaves = [first, second, torch.randn(V, D), torch.randn(V)]
    targets = torch.randint(0, V, (count,))
    return [leaf.requires_grad_() for leaf in leaves], targets


def plain(
    features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float
) -> Tensor:
    logits = features @ weight.T + bias
    return F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")


def plain_rdrop(
    leaves: list[Tensor], targets: Tensor, smoothing: float, rdrop: float
) -> Tensor:
    """Equations 1 to 3 of Liang et al. 2021, halved."""
    first, second, weight, bias = leaves
    p, q = (
        (features @ weight.T + bias).log_softmax(-1) for features in (first, second)
    )
    entropy = plain(first, weight, bias, targets, smoothing)
    entropy = entropy + plain(second, weight, bias, targets, smoothing)
    divergence = F.kl_div(q, p, reduction="sum", log_target=True)
    divergence = divergence + F.kl_div(p, q, reduction="sum", log_target=True)
    return entropy / 2 + rdrop / 4 * divergence


def one_pass(
    leaves: list[Tensor], targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    first, _, weight, bias = leaves
    return smoothed_cross_entropy(first, weight, bias, targets, smoothing)


def two_passes(
    leaves: list[Tensor], targets: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    return rdrop_cross_entropy(*leaves, targets, smoothing, RDROP)


def plain_one_pass(leaves: list[Tensor], targets: Tensor, smoothing: float) -> Tensor:
    first, _, weight, bias = leaves
    return plain(first, weight, bias, targets, smoothing)


def plain_two_passes(leaves: list[Tensor], targets: Tensor, smoothing: float) -> Tensor:
    return plain_rdrop(leaves, targets, smoothing, RDROP)


BOTH_LOSSES = pytest.mark.parametrize(
    ("loss_of", "formula"),
    [(one_pass, plain_one_pass), (two_passes, plain_two_passes)],
    ids=["one pass", "R-Drop"],
)


@BOTH_LOSSES
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize(
    "count", [0, 1, SLICE // 2, SLICE // 2 + 1, SLICE + 1, 2 * SLICE + 77]
)
def test_the_loss_equals_its_formula_in_value_and_gradients(
    count: int, smoothing: float, loss_of: LossFunction, formula: Callable[..., Tensor]
) -> None:
    leaves, targets = inputs(count)
    smoothed, entropy = loss_of(leaves, targets, smoothing)
    expected = formula(leaves, targets, smoothing)
    actual = with_gradients([-3 * smoothed], leaves)
    assert_all_close(
        actual, with_gradients([-3 * expected], leaves), rtol=1e-4, atol=1e-4
    )
    first, second, weight, bias = leaves
    plain_entropy = plain(first, weight, bias, targets, 0.0)
    if loss_of is two_passes:
        plain_entropy = (plain_entropy + plain(second, weight, bias, targets, 0.0)) / 2
    torch.testing.assert_close(entropy, plain_entropy.detach(), rtol=1e-4, atol=1e-4)
    assert not entropy.requires_grad


def test_the_slices_of_a_gpu_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Off the CPU a slice holds as many rows as a number of logits allows: here 400 and all 700."""
    results = []
    leaves, targets = inputs(700)
    for rows in (SLICE, 400, 10_000):
        monkeypatch.setattr(
            "regard.training.loss._rows_at_once", lambda *_, rows=rows: rows
        )
        smoothed, entropy = one_pass(leaves, targets, 0.1)
        results.append([entropy, *with_gradients([smoothed], leaves)])
    for other in results[1:]:
        assert_all_close(other, results[0], rtol=1e-4, atol=1e-4)


@BOTH_LOSSES
@pytest.mark.parametrize("frozen", range(4))
def test_frozen_inputs_get_no_gradient_and_the_rest_are_unchanged(
    frozen: int, loss_of: LossFunction, formula: Callable[..., Tensor]
) -> None:
    leaves, targets = inputs(70)
    leaves[frozen] = leaves[frozen].detach()
    learning = [leaf for leaf in leaves if leaf.requires_grad]
    actual = gradients(loss_of(leaves, targets, 0.1)[0], learning)
    expected = gradients(formula(leaves, targets, 0.1), learning)
    assert_all_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_without_gradients_the_value_is_the_same() -> None:
    leaves, targets = inputs(300)
    expected = one_pass(leaves, targets, 0.1)
    with torch.no_grad():
        actual = one_pass(leaves, targets, 0.1)
    assert torch.equal(actual[0], expected[0])
    assert torch.equal(actual[1], expected[1])


@BOTH_LOSSES
def test_very_large_logits_give_no_nan(
    loss_of: LossFunction, formula: Callable[..., Tensor]
) -> None:
    leaves, targets = inputs(40, scale=1e4)
    loss, _ = loss_of(leaves, targets, 0.1)
    torch.testing.assert_close(
        loss, formula(leaves, targets, 0.1), rtol=1e-4, atol=1e-2
    )
    for gradient in gradients(loss, leaves):
        assert bool(gradient.isfinite().all())


@BOTH_LOSSES
@pytest.mark.parametrize("low_features", [False, True])
def test_bfloat16_is_close(
    low_features: bool, loss_of: LossFunction, formula: Callable[..., Tensor]
) -> None:
    leaves, targets = inputs(300)
    used = list(leaves)
    if low_features:
        used[:2] = [features.bfloat16() for features in leaves[:2]]
    with torch.autocast("cpu", torch.bfloat16):
        loss, entropy = loss_of(used, targets, 0.1)
    actual = with_gradients([loss], leaves)
    assert all(tensor.dtype == torch.float32 for tensor in actual)
    assert_all_near(
        actual, with_gradients([formula(leaves, targets, 0.1)], leaves), 0.03
    )
    assert_all_near([entropy], [loss_of(leaves, targets, 0.1)[1]], 0.01)


@BOTH_LOSSES
def test_a_second_backward_pass_is_an_error_and_not_a_wrong_number(
    loss_of: LossFunction, formula: Callable[..., Tensor]
) -> None:
    leaves, targets = inputs(300)
    loss, _ = loss_of(leaves, targets, 0.1)
    gradients(loss * 3, leaves)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradients(loss, leaves)


# --- the objective


PAIRS = [
    ([5, 6, 7], [8, 9]),
    ([4], [10, 11, 12, 13, 5]),
    ([9, 9, 4, 8], []),
    ([6, 5], [4, 4, 7]),
]
EXAMPLES = [Example([*source, EOS], [*target, EOS]) for source, target in PAIRS]


def with_dropout(settings: ModelSettings) -> ModelSettings:
    """Return the same settings with dropout."""
    return ModelSettings(
        encoder=settings.encoder.with_values(dropout=0.3),
        decoder=settings.decoder.with_values(dropout=0.3),
        share=settings.share,
    )


def source_of(batch: TrainingBatch) -> Batch:
    return Batch(batch.source, batch.source_keep)


def learning(model: nn.Module) -> list[Tensor]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@EVERY_KIND
@pytest.mark.parametrize("rdrop", [0.0, RDROP])
def test_the_objective_is_its_formula_over_all_tokens_but_padding(
    settings: ModelSettings, rdrop: float
) -> None:
    model = make(with_dropout(settings)).train()
    batch = batched(settings, EXAMPLES)
    keep = batch.target_out.flatten() != PAD
    torch.manual_seed(3)
    loss = Objective(model, 0.1, rdrop)(batch)
    torch.manual_seed(3)
    passes = []
    for _ in range(2 if rdrop else 1):
        features = model(source_of(batch), batch.target_in)
        passes.append(features.flatten(0, 1)[keep])
    output = model.decoder.output
    leaves = [passes[0], passes[-1], output.weight, output.bias]
    targets = batch.target_out.flatten()[keep]
    assert (
        loss.tokens == len(targets) == sum(len(example.target) for example in EXAMPLES)
    )
    actual = with_gradients([loss.smoothed], learning(model))
    expected = with_gradients(
        [plain_rdrop(leaves, targets, 0.1, rdrop)], learning(model)
    )
    assert_all_close(actual, expected, rtol=1e-4, atol=1e-3)
    plain_entropy = plain_rdrop(leaves, targets, 0.0, 0.0)
    torch.testing.assert_close(
        loss.cross_entropy, plain_entropy.detach(), rtol=1e-4, atol=1e-4
    )


@EVERY_KIND
def test_the_loss_of_a_batch_is_the_sum_of_the_losses_of_its_sentences(
    settings: ModelSettings,
) -> None:
    objective = Objective(make(settings), 0.1, doubly_stochastic=0.5)
    whole = objective(batched(settings, EXAMPLES))
    parts = [objective(batched(settings, [example])) for example in EXAMPLES]
    smoothed = sum(part.smoothed for part in parts)
    torch.testing.assert_close(whole.smoothed, smoothed, rtol=1e-4, atol=1e-4)
    cross_entropy = sum(part.cross_entropy for part in parts)
    torch.testing.assert_close(whole.cross_entropy, cross_entropy, rtol=1e-4, atol=1e-4)
    assert whole.tokens == sum(part.tokens for part in parts)


# --- doubly stochastic attention


def doubly_stochastic_penalty(model: Model, batch: TrainingBatch) -> float:
    """Equation 14 of Show, Attend and Tell, sentence by sentence and entry by entry."""
    with torch.no_grad(), record_attention(model, role="cross") as readings:
        model(source_of(batch), batch.target_in)
    keep = entry_keep(model, source_of(batch))
    penalties = []
    for weights in readings.values():
        for head in range(weights.shape[1]):
            penalty = 0.0
            for row, target in enumerate(batch.target_out):
                for entry in keep[row].nonzero()[:, 0]:
                    attended = weights[row, head, target != PAD, entry].sum()
                    penalty += float((1 - attended) ** 2)
            penalties.append(penalty)
    return sum(penalties) / max(1, len(penalties))


@EVERY_KIND
def test_the_doubly_stochastic_penalty_is_the_published_sum(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = batched(settings, EXAMPLES)
    unpenalised = Objective(model, 0.1)(batch)
    penalised = Objective(model, 0.1, doubly_stochastic=0.7)(batch)
    penalty = (penalised.smoothed - unpenalised.smoothed).item()
    expected = 0.7 * doubly_stochastic_penalty(model, batch)
    assert penalty == pytest.approx(expected, rel=1e-4, abs=1e-3)
    assert torch.equal(penalised.cross_entropy, unpenalised.cross_entropy)
    with_rdrop = Objective(model, 0.1, RDROP, doubly_stochastic=0.7)(batch)
    torch.testing.assert_close(
        with_rdrop.smoothed, penalised.smoothed, rtol=1e-4, atol=1e-3
    )


def test_training_with_the_penalty_makes_attention_more_even() -> None:
    settings = next(
        parameter.values[0]
        for parameter in kinds()
        if any(
            isinstance(module, Attention)
            for module in make(parameter.values[0]).modules()
        )
    )
    model = make(settings)
    batch = batched(settings, EXAMPLES)
    before = doubly_stochastic_penalty(model, batch)
    optimizer = torch.optim.SGD(learning(model.decoder), 1e-4)
    for _ in range(4):
        optimizer.zero_grad()
        penalised = Objective(model, 0.1, doubly_stochastic=1.0)(batch).smoothed
        (penalised - Objective(model, 0.1)(batch).smoothed).backward()
        optimizer.step()
    assert doubly_stochastic_penalty(model, batch) < before - 1e-4


# --- several captions of one image


@EVERY_KIND
def test_captions_of_one_image_count_like_separate_examples(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    others = [
        Example(first.source, last.target)
        for first, last in zip(EXAMPLES, EXAMPLES[::-1], strict=True)
    ]
    batch = batched(settings, EXAMPLES)
    second = batched(settings, others)
    T = max(batch.target_in.shape[1], second.target_in.shape[1])
    stacked = {}
    for name in ("target_in", "target_out"):
        sides = [getattr(part, name) for part in (batch, second)]
        padded = [F.pad(side, (0, T - side.shape[1]), value=PAD) for side in sides]
        stacked[name] = torch.stack(padded, 1).flatten(0, 1)
    whole = replace(batch, tokens=batch.tokens + second.tokens, **stacked)
    objective = Objective(model, 0.1, doubly_stochastic=0.5)
    loss = objective(whole)
    first_loss = objective(batch)
    second_loss = objective(second)
    cross_entropy = first_loss.cross_entropy + second_loss.cross_entropy
    torch.testing.assert_close(loss.cross_entropy, cross_entropy, rtol=1e-4, atol=1e-4)
    actual = with_gradients([loss.smoothed], learning(model))
    expected = with_gradients(
        [first_loss.smoothed + second_loss.smoothed], learning(model)
    )
    assert_all_close(actual, expected, rtol=1e-3, atol=1e-3)
    parts = [objective(part) for part in whole.split(2)]
    smoothed = sum(part.smoothed for part in parts)
    torch.testing.assert_close(smoothed, loss.smoothed, rtol=1e-4, atol=1e-4)
    assert sum(part.tokens for part in parts) == loss.tokens
