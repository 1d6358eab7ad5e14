"""Guided attention: one head learns to follow word links, and nothing else changes."""

from __future__ import annotations

import json
import math
from array import array
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from laws.models import kinds, make
from torch import Tensor

from regard.attention import Attention, Score, masked_softmax, watch
from regard.attention.alignment_choice import AlignmentChoice
from regard.common.checksums import sealed
from regard.common.errors import ConfigurationError
from regard.data.batch import Example, TrainingBatch, collate
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.vocabulary import EOS
from regard.model_folder import load_alignment
from regard.models import Batch, Model, ModelSettings, build
from regard.training import Recipe, Trainer
from regard.training.guided import Guide
from regard.training.journal import read as read_journal
from regard.training.loss import Objective
from regard.training.recipe import TrainingSettings

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
EXAMPLES = [
    Example([5, 6, 7, EOS], [8, 9, EOS], links=array("i", [0, 1, 2, 1, 1, 0])),
    Example([4, EOS], [10, 11, 12, 13, 5, EOS], links=array("i", [0, 2, 0, 3])),
    Example([9, 9, 4, 8, EOS], [EOS], links=array("i")),
    Example(
        [6, 5, EOS],
        [4, 4, 7, EOS],
        links=array("i", [0, 0, 1, 0, 0, 1, 1, 1, 0, 2, 1, 2]),
    ),
]
WITHOUT_LINKS = collate([Example(one.source, one.target) for one in EXAMPLES])
GUIDED = [
    parameter
    for parameter in kinds(reads=["text"])
    if any(
        isinstance(m, Attention) and m.role == "cross"
        for m in make(parameter.values[0]).modules()
    )
]


def guide(model: Model, weight: float = 0.5, **settings: Any) -> Guide:
    guide = Guide.of(model, TrainingSettings(guided=weight, **settings))

    assert guide is not None

    return guide


def plain_divergence(
    model: Model, guide: Guide, batch: TrainingBatch
) -> tuple[Tensor, int]:
    """Sum, over linked target tokens, the mean of log (1/n) − log weight over the n source tokens
    linked to each.
    """
    shift = int(guide.shifted)
    with watch(model, gradients=True) as readings:
        model(Batch(batch.source, batch.source_keep), batch.target_in)
    weights = readings[guide.layer][:, guide.head]
    total = torch.zeros(())
    count = 0
    for row, line in enumerate(batch.indices):
        links = EXAMPLES[line].links

        assert links is not None

        sources_of: dict[int, list[int]] = {}
        for source, target in zip(links[::2], links[1::2], strict=True):
            sources_of.setdefault(target, []).append(source)
        for target, sources in sources_of.items():
            count += 1
            share = 1 / len(sources)
            for source in sources:
                log_weight = weights[row, target + shift, source].log()
                total = total + share * (math.log(share) - log_weight)

    return total, count


@pytest.mark.parametrize("row", ["before", "after"])
@pytest.mark.parametrize("settings", GUIDED)
def test_the_guided_loss_equals_the_plain_loop(
    settings: ModelSettings, row: str
) -> None:
    model = make(settings)
    batch = collate(EXAMPLES)
    guided = guide(model, guided_row=row)
    objective = partial(Objective(0.1, guide=guided), model)
    loss = objective(batch)
    unguided = Objective(0.1)(model, batch)
    expected, count = plain_divergence(model, guided, batch)

    assert loss.guided is not None
    assert loss.linked is not None

    torch.testing.assert_close(loss.guided, expected, **CLOSE)

    assert int(loss.linked) == count == 7

    torch.testing.assert_close(
        loss.smoothed, unguided.smoothed + 0.5 * expected, **CLOSE
    )

    assert torch.equal(loss.cross_entropy, unguided.cross_entropy)

    parameters = list(model.parameters())
    actual = torch.autograd.grad(loss.guided, parameters, allow_unused=True)

    plain = torch.autograd.grad(expected, parameters, allow_unused=True)
    for one, other in zip(actual, plain, strict=True):
        # Small entries are differences of large ones, in another order.
        largest = 0.0 if other is None else float(other.abs().max())
        close = {**CLOSE, "atol": CLOSE["atol"] + CLOSE["rtol"] * largest}
        torch.testing.assert_close(one, other, **close)

    parts = [objective(part).detached() for part in batch.split(3)]
    total = sum(float(part.guided) for part in parts)

    assert total == pytest.approx(expected.item(), rel=1e-4)

    loss = objective(WITHOUT_LINKS)

    assert (loss.guided, loss.linked) == (None, None)
    assert torch.equal(loss.smoothed, unguided.smoothed)


def test_both_passes_of_rdrop_are_guided() -> None:
    model = make(GUIDED[0].values[0])
    batch = collate(EXAMPLES)
    once, twice = (
        Objective(0.1, rdrop, guide(model))(model, batch) for rdrop in (0.0, 3.0)
    )

    torch.testing.assert_close(once.guided, twice.guided, **CLOSE)
    torch.testing.assert_close(once.smoothed, twice.smoothed, **CLOSE)


# --- one head of one layer


def three_layers(**settings: Any) -> Model:
    sizes = {
        "kind": "transformer",
        "size": 16,
        "heads": 4,
        "feedforward": 16,
        "dropout": 0.0,
    }
    encoder = {"layers": 1, **sizes}
    decoder = {"layers": 3, **sizes, **settings}
    return make(
        ModelSettings.parse(
            {"encoder": encoder, "decoder": decoder, "share": "none"}, "the test"
        )
    )


def recurrent(decoder: str) -> Model:
    values = {"encoder": {"kind": "recurrent"}, "decoder": {"kind": decoder}}
    return build(ModelSettings.parse(values, "the test"), 9, 9, True)


def test_only_the_guided_layer_computes_its_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = three_layers()
    softmax = Mock(wraps=masked_softmax)
    for module in model.modules():
        if isinstance(module, Score):
            monkeypatch.setattr(module, "normalise", softmax)
    guided = partial(Objective(0.1, guide=guide(model)), model)
    guided(WITHOUT_LINKS)

    assert softmax.call_count == 0, "the fused kernel computes none"

    guided(collate(EXAMPLES))

    assert softmax.call_count == 1


def test_auto_guides_the_layer_before_the_last_or_the_only_one() -> None:
    assert guide(three_layers()) == Guide("decoder.layers.1.cross_attention", 0, 0.5)

    only = Guide("decoder.cross_attention", 0, 0.5)

    assert guide(recurrent("recurrent")) == only
    assert Guide.of(three_layers(), TrainingSettings(guided=0.0)) is None


def test_a_head_that_the_model_lacks_is_refused() -> None:
    model = three_layers()
    message = "layer 4 was asked for, and this decoder has 3 with cross-attention; give 1 to 3"

    with pytest.raises(ConfigurationError, match=f"guided_layer: {message}"):
        guide(model, guided_layer=4)

    message = "head 5 was asked for, and layer 2 has 4; give 1 to 4"

    with pytest.raises(ConfigurationError, match=f"guided_head: {message}"):
        guide(model, guided_head=5)


def test_a_decoder_without_attention_cannot_be_guided() -> None:
    with pytest.raises(ConfigurationError, match="has no attention to guide"):
        guide(recurrent("no_attention"))


def test_a_dropped_layer_is_not_guided() -> None:
    model = three_layers(layer_dropout=0.6).train()
    objective = partial(Objective(0.1, guide=guide(model)), model)
    batch = collate(EXAMPLES)
    guided = [objective(batch).guided is not None for _ in range(40)]

    assert 0 < sum(guided) < 40


def test_a_weight_of_zero_gives_a_large_loss_and_no_nan() -> None:
    model = three_layers()
    with torch.no_grad():
        model.get_parameter("decoder.layers.1.cross_attention.query.weight").mul_(1e4)
    loss = Objective(0.1, guide=guide(model))(model, collate(EXAMPLES))

    assert math.isfinite(loss.guided.item())

    loss.smoothed.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]

    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


# --- whole runs


def recipe(**training: Any) -> Recipe:
    side = {
        "kind": "transformer",
        "layers": 2,
        "size": 8,
        "heads": 2,
        "feedforward": 16,
    }
    values = {
        "data": {"source": "unread", "target": "unread", "alignments": "unread"},
        "model": {"encoder": side, "decoder": side},
        "training": {"validate_every": 1, "log_every": 1, **training},
    }
    return Recipe.parse(values, "the test").resolved("cpu")


def trainer(recipe: Recipe, folder: Path) -> Trainer:
    torch.manual_seed(recipe.training.seed)
    model = build(recipe.model, 20, 20, joint=True)
    batches = BatchStream(EXAMPLES, BatchingSettings(tokens=48, micro_batches=1), 1)
    scores = {"loss": 1.0, "chrf": 1.0, "bleu": 0.0}
    return Trainer(model, batches, recipe, folder, lambda _: scores)


@pytest.mark.system
def test_alignments_come_from_the_guided_head_unless_another_was_chosen(
    tmp_path: Path,
) -> None:
    trainer(recipe(updates=1, guided_head=2, guided_row="after"), tmp_path).run()
    guided = {"layer": "decoder.layers.0.cross_attention", "head": 1, "shifted": True}

    assert load_alignment(tmp_path) == AlignmentChoice(**guided)

    events = read_journal(tmp_path / "journal.jsonl")

    assert [line["guided"] > 0 for line in events if "guided" in line] == [True]

    resumed = trainer(recipe(updates=2, guided_layer=2), tmp_path)
    resumed.resume()
    resumed.run()
    guided = {"layer": "decoder.layers.1.cross_attention", "head": 0, "shifted": False}

    assert load_alignment(tmp_path) == AlignmentChoice(**guided)

    # Written by a version without with_reverse.
    chosen = {**guided, "head": None, "symmetry": None}
    text = json.dumps(sealed(chosen, id=""))
    (tmp_path / "alignment.json").write_text(text, encoding="utf-8")
    trainer(recipe(updates=1), tmp_path).run()

    assert load_alignment(tmp_path) == AlignmentChoice(**chosen)
