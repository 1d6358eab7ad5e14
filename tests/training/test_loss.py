"""Training losses: computed in slices, they equal the plain formulas in value and in every
gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

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
from training.examples import EXAMPLES as BATCHES
from training.examples import with_dropout

from regard.attention import record_attention
from regard.data.batch import Example, TrainingBatch, collate
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
EXAMPLES = [example for examples in BATCHES for example in examples]
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
    leaves: list[Tensor], targets: Tensor, smoothing: float, rdrop: float = RDROP
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


BOTH_LOSSES = pytest.mark.parametrize(
    ("loss_of", "formula"),
    [(one_pass, plain_one_pass), (two_passes, plain_rdrop)],
    ids=["one pass", "R-Drop"],
)


@BOTH_LOSSES
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("count", [0, 1, SLICE // 2 + 1, 2 * SLICE + 77])
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
    with torch.no_grad():
        actual = one_pass(leaves, targets, 0.1)

    assert_all_close(actual, one_pass(leaves, targets, 0.1), rtol=0, atol=0)


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
    expected = with_gradients([formula(leaves, targets, 0.1)], leaves)

    assert all(tensor.dtype == torch.float32 for tensor in actual)

    assert_all_near(actual, expected, 0.03)
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
    loss = Objective(0.1, rdrop)(model, batch)
    torch.manual_seed(3)
    passes = []
    for _ in range(2 if rdrop else 1):
        features = model(Batch(batch.source, batch.source_keep), batch.target_in)
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


# --- doubly stochastic attention


def doubly_stochastic_penalty(model: Model, batch: TrainingBatch) -> Tensor:
    """Equation 14 of Show, Attend and Tell, sentence by sentence."""
    source = Batch(batch.source, batch.source_keep)
    with record_attention(model, gradients=True, role="cross") as readings:
        model(source, batch.target_in)
    keep = entry_keep(model, source)
    total = torch.zeros(())
    heads = 0
    for weights in readings.values():
        heads += weights.shape[1]
        for row, target in enumerate(batch.target_out):
            attended = weights[row][:, target != PAD].sum(1)
            total = total + ((1 - attended[:, keep[row]]) ** 2).sum()

    return total / max(1, heads)


@EVERY_KIND
def test_the_doubly_stochastic_penalty_is_the_published_sum(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = batched(settings, EXAMPLES)
    unpenalised = Objective(0.1)(model, batch)
    penalised = Objective(0.1, doubly_stochastic=0.7)(model, batch)
    expected = unpenalised.smoothed + 0.7 * doubly_stochastic_penalty(model, batch)

    assert_all_close(
        with_gradients([penalised.smoothed], learning(model)),
        with_gradients([expected], learning(model)),
        rtol=1e-3,
        atol=1e-3,
    )

    assert torch.equal(penalised.cross_entropy, unpenalised.cross_entropy)

    with_rdrop = Objective(0.1, RDROP, doubly_stochastic=0.7)(model, batch)

    torch.testing.assert_close(
        with_rdrop.smoothed, penalised.smoothed, rtol=1e-4, atol=1e-3
    )


# --- several captions of one image


@EVERY_KIND
def test_captions_of_one_image_count_like_separate_examples(
    settings: ModelSettings,
) -> None:
    """Each source has two targets, as rows that follow each other."""
    model = make(settings)
    sources = batched(settings, EXAMPLES)
    targets = zip(EXAMPLES, EXAMPLES[::-1], strict=True)
    rows = [Example([EOS], one.target) for pair in targets for one in pair]
    separate = replace(
        collate(rows),
        source=sources.source.repeat_interleave(2, 0),
        source_keep=sources.source_keep.repeat_interleave(2, 0),
    )
    together = replace(
        separate,
        source=sources.source,
        source_keep=sources.source_keep,
        indices=sources.indices,
    )
    objective = partial(Objective(0.1, doubly_stochastic=0.5), model)
    loss = objective(together)
    expected = objective(separate)

    assert_all_close(
        with_gradients([loss.cross_entropy, loss.smoothed], learning(model)),
        with_gradients([expected.cross_entropy, expected.smoothed], learning(model)),
        rtol=1e-3,
        atol=1e-3,
    )

    parts = [objective(part) for part in together.split(2)]
    smoothed = sum(part.smoothed for part in parts)

    torch.testing.assert_close(smoothed, loss.smoothed, rtol=1e-4, atol=1e-4)

    assert sum(part.tokens for part in parts) == loss.tokens
