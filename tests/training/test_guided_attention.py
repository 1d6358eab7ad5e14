"""Guided attention: one head learns to follow word links, and nothing else changes."""

from __future__ import annotations

import json
import math
import random
from array import array
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.broad_cases import broad
from helpers.tensor_equality import assert_all_close
from laws.learning import SYMBOLS, string
from laws.models import kinds, make
from torch import Tensor

from regard.attention import Attention, attention, watch
from regard.common.checksums import sealed
from regard.common.errors import ConfigurationError
from regard.common.settings import Settings
from regard.data.batch import Example, TrainingBatch, collate
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.vocabulary import EOS
from regard.model_folder import load_alignment, named_weights
from regard.models import DECODERS, Batch, Model, ModelSettings, build
from regard.models.recurrent import RecurrentEncoderSettings
from regard.models.transformer import (
    TransformerDecoderSettings,
    TransformerEncoderSettings,
)
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
    objective = Objective(model, 0.1, guide=guided)
    loss = objective(batch)
    unguided = Objective(model, 0.1)(batch)
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
    assert_all_close(
        actual, torch.autograd.grad(expected, parameters, allow_unused=True), **CLOSE
    )
    parts = [objective(part).detached() for part in batch.split(3)]
    total = sum(float(part.guided) for part in parts)
    assert total == pytest.approx(expected.item(), rel=1e-4)
    without_links = collate(
        [Example(example.source, example.target) for example in EXAMPLES]
    )
    loss = objective(without_links)
    assert (loss.guided, loss.linked) == (None, None)
    assert torch.equal(loss.smoothed, unguided.smoothed)


def test_both_passes_of_rdrop_are_guided() -> None:
    model = make(GUIDED[0].values[0])
    batch = collate(EXAMPLES)
    once, twice = (
        Objective(model, 0.1, rdrop, guide(model))(batch) for rdrop in (0.0, 3.0)
    )
    torch.testing.assert_close(once.guided, twice.guided, **CLOSE)
    torch.testing.assert_close(once.smoothed, twice.smoothed, **CLOSE)


# --- one head of one layer


def three_layers(**settings: Any) -> Model:
    sizes: dict[str, Any] = {"size": 16, "heads": 4, "feedforward": 16, "dropout": 0.0}
    encoder = TransformerEncoderSettings(layers=1, **sizes)
    decoder = TransformerDecoderSettings(layers=3, **sizes, **settings)
    return make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))


def test_only_the_guided_layer_computes_its_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = three_layers()
    calls = []
    softmax = attention.masked_softmax

    def spy(scores: Tensor, keep: Tensor | None) -> Tensor:
        calls.append(scores.shape)
        return softmax(scores, keep)

    monkeypatch.setattr(attention, "masked_softmax", spy)
    batch = collate(EXAMPLES)
    Objective(model, 0.1)(batch)
    Objective(model, 0.1, guide=guide(model))(
        collate([Example(e.source, e.target) for e in EXAMPLES])
    )
    assert calls == [], "the fused kernel computes none"
    Objective(model, 0.1, guide=guide(model))(batch)
    assert len(calls) == 1


def test_auto_guides_the_layer_before_the_last_or_the_only_one() -> None:
    assert guide(three_layers()) == Guide("decoder.layers.1.cross_attention", 0, 0.5)
    only = ModelSettings.model_validate(
        {"encoder": {"kind": "recurrent"}, "decoder": {"kind": "recurrent"}}
    )
    assert guide(build(only, 9, 9, True)) == Guide("decoder.cross_attention", 0, 0.5)
    assert Guide.of(three_layers(), TrainingSettings(guided=0.0)) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"guided_layer": 4},
            "guided_layer: layer 4 was asked for, and this decoder has 3 with cross-attention; give 1 to 3",
        ),
        (
            {"guided_head": 5},
            "guided_head: head 5 was asked for, and layer 2 has 4; give 1 to 4",
        ),
    ],
)
def test_a_head_that_the_model_lacks_is_refused(
    settings: dict[str, int], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        guide(three_layers(), **settings)


def test_a_decoder_without_attention_cannot_be_guided() -> None:
    settings = ModelSettings.model_validate(
        {"encoder": {"kind": "recurrent"}, "decoder": {"kind": "no_attention"}}
    )
    with pytest.raises(ConfigurationError, match="has no attention to guide"):
        guide(build(settings, 9, 9, True))


def test_a_dropped_layer_is_not_guided() -> None:
    model = three_layers(layer_dropout=0.6).train()
    objective = Objective(model, 0.1, guide=guide(model))
    batch = collate(EXAMPLES)
    guided = [objective(batch).guided is not None for _ in range(40)]
    assert 0 < sum(guided) < 40


def test_a_weight_of_zero_gives_a_large_loss_and_no_nan() -> None:
    model = three_layers()
    with torch.no_grad():
        model.get_parameter("decoder.layers.1.cross_attention.query.weight").mul_(1e4)
    loss = Objective(model, 0.1, guide=guide(model))(collate(EXAMPLES))
    assert math.isfinite(loss.guided.item())
    (loss.smoothed).backward()
    assert all(
        bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None
    )


# --- learning


SIZES: dict[str, Any] = {
    "size": 32,
    "layers": 2,
    "heads": 2,
    "feedforward": 64,
    "attention_size": 32,
    "embedding": 32,
}
ENCODER = RecurrentEncoderSettings(size=24, embedding=32, dropout=0.0)


def mirrored(generator: random.Random) -> TrainingBatch:
    """Draw strings to copy, each token linked to the source token at the mirrored position."""
    examples = []
    for _ in range(32):
        row = string(generator)
        links = array("i")
        for t in range(len(row)):
            links.extend((len(row) - 1 - t, t))
        examples.append(Example([*row, EOS], [*row, EOS], links=links))
    return collate(examples)


def accuracy(model: Model, guide: Guide, batch: TrainingBatch) -> float:
    """Return the share of linked tokens for which the head's largest weight is on a link."""
    with watch(model) as readings, torch.no_grad():
        model(Batch(batch.source, batch.source_keep), batch.target_in)
    assert batch.links is not None
    linked = batch.links.any(2)
    hits = readings[guide.layer][:, guide.head].argmax(2) == batch.links.argmax(2)
    return float(hits[linked].float().mean())


@pytest.mark.system
@pytest.mark.parametrize(
    "kind", broad(kind for kind in DECODERS if "score" in kind.model_fields)
)
def test_a_guided_head_learns_links_that_an_unguided_one_does_not(
    kind: type[Settings],
) -> None:
    sizes = {name: value for name, value in SIZES.items() if name in kind.model_fields}
    decoder = kind.parse({**sizes, "dropout": 0.0}, "the test")
    settings = ModelSettings(encoder=ENCODER, decoder=decoder, share="none")
    accuracies = {}
    for weight in (0.0, 2.0):
        torch.manual_seed(0)
        generator = random.Random(0)
        model = build(settings, SYMBOLS.stop, SYMBOLS.stop, True)
        objective = Objective(
            model, 0.0, guide=guide(model, weight) if weight else None
        )
        optimizer = torch.optim.Adam(model.parameters(), 1e-2, betas=(0.9, 0.98))
        for _ in range(60 if weight else 30):
            loss = objective(mirrored(generator))
            optimizer.zero_grad()
            (loss.smoothed / loss.tokens).backward()
            optimizer.step()
        accuracies[weight] = accuracy(
            model.eval(), guide(model), mirrored(random.Random(1))
        )
    assert accuracies[0.0] < 0.5
    assert accuracies[2.0] > 0.9


# --- whole runs


def recipe(**training: Any) -> Recipe:
    sizes: dict[str, Any] = {
        "kind": "transformer",
        "layers": 2,
        "size": 8,
        "heads": 2,
        "feedforward": 16,
    }
    values = {
        "data": {"source": "unread", "target": "unread", "alignments": "unread"},
        "model": {"encoder": sizes, "decoder": {**sizes, "layer_dropout": 0.2}},
        "schedule": {"peak": 1e-2, "warmup": 4},
        "training": {
            "updates": 12,
            "validate_every": 5,
            "log_every": 2,
            "precision": "float32",
            **training,
        },
    }
    return Recipe.parse(values, "the test").resolved("cpu")


def trainer(recipe: Recipe, folder: Path) -> Trainer:
    torch.manual_seed(recipe.training.seed)
    model = build(recipe.model, 20, 20, joint=True)
    generator = random.Random(1)
    examples = []
    for _ in range(40):
        row = [generator.randrange(4, 20) for _ in range(generator.randint(1, 6))]
        links = array("i", sorted([*range(len(row))] * 2))
        examples.append(Example([*row, EOS], [*row, EOS], links=links))
    folder.mkdir(parents=True, exist_ok=True)
    batches = BatchStream(examples, BatchingSettings(tokens=48, micro_batches=2), 1)
    scores = {"loss": 1.0, "chrf": 1.0, "bleu": 0.0}
    return Trainer(model, batches, recipe, folder, lambda _: scores)


@pytest.mark.system
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    """The divergence of the guided head is in the journal of a guided run only."""
    uninterrupted = trainer(recipe(rdrop=1.0), tmp_path / "uninterrupted")
    uninterrupted.run()
    trainer(recipe(rdrop=1.0, updates=7), tmp_path / "stopped").run()
    resumed = trainer(recipe(rdrop=1.0), tmp_path / "stopped")
    assert resumed.resume()
    resumed.run()
    weights = named_weights(uninterrupted.model)
    for name, weight in named_weights(resumed.model).items():
        assert torch.equal(weight, weights[name]), name
    assert (
        len([line["guided"] for line in train_events(tmp_path / "uninterrupted")]) == 6
    )
    unguided = trainer(recipe(guided=0.0), tmp_path / "unguided")
    unguided.run()
    assert not any("guided" in line for line in train_events(tmp_path / "unguided"))


def train_events(run: Path) -> list[dict[str, Any]]:
    return [
        line for line in read_journal(run / "journal.jsonl") if line["event"] == "train"
    ]


@pytest.mark.system
def test_alignments_come_from_the_guided_head_unless_another_was_chosen(
    tmp_path: Path,
) -> None:
    default = {"symmetry": None, "with_reverse": "grow-diag"}
    trainer(recipe(updates=1, guided_head=2, guided_row="after"), tmp_path).run()
    expected = {"layer": "decoder.layers.0.cross_attention", "head": 1, "shifted": True}
    assert load_alignment(tmp_path) == {**expected, **default}
    resumed = trainer(recipe(updates=2, guided_layer=2), tmp_path)
    resumed.resume()
    resumed.run()
    expected = {
        "layer": "decoder.layers.1.cross_attention",
        "head": 0,
        "shifted": False,
    }
    assert load_alignment(tmp_path) == {**expected, **default}
    # Written by a version without with_reverse.
    chosen = {**expected, "head": None, "symmetry": None}
    (tmp_path / "alignment.json").write_text(
        json.dumps(sealed(chosen, id="")), encoding="utf-8"
    )
    trainer(recipe(updates=1), tmp_path).run()
    assert load_alignment(tmp_path) == {**chosen, **default}
