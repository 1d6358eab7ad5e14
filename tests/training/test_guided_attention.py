"""Guided attention: one head learns to follow word links, and nothing else changes."""

from __future__ import annotations

import json
import math
import random
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from broad import broad
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
from regard.models.transformer import TransformerDecoderSettings, TransformerEncoderSettings
from regard.training import Recipe, Trainer
from regard.training.gradient_workers import GradientWorkers
from regard.training.guided import Guide
from regard.training.journal import read as read_journal
from regard.training.loss import Loss, Objective
from regard.training.recipe import TrainingSettings

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
EXAMPLES = [
    Example([5, 6, 7, EOS], [8, 9, EOS], links=array("i", [0, 1, 2, 1, 1, 0])),
    Example([4, EOS], [10, 11, 12, 13, 5, EOS], links=array("i", [0, 2, 0, 3])),
    Example([9, 9, 4, 8, EOS], [EOS], links=array("i")),
    Example([6, 5, EOS], [4, 4, 7, EOS], links=array("i", [0, 0, 1, 0, 0, 1, 1, 1, 0, 2, 1, 2])),
]
GUIDED = [
    parameter
    for parameter in kinds(reads=["text"])
    if any(
        isinstance(m, Attention) and m.role == "cross" for m in make(parameter.values[0]).modules()
    )
]


def guide(model: Model, weight: float = 0.5, **settings: Any) -> Guide:
    guide = Guide.of(model, TrainingSettings(guided=weight, **settings))
    assert guide is not None
    return guide


def plain_divergence(model: Model, guide: Guide, batch: TrainingBatch) -> tuple[Tensor, int]:
    """Sum, over linked target tokens, the mean of log (1/n) − log weight over the n source tokens
    linked to each.
    """
    shift = int(guide.shifted)
    with watch(model, gradients=True) as readings:
        model(Batch(batch.source, batch.source_keep), batch.target_in)
    total = torch.zeros(())
    count = 0
    for row, line in enumerate(batch.indices):
        links = EXAMPLES[line].links
        assert links is not None
        tokens = [*zip(links[::2], links[1::2], strict=True)]
        for t in {target for _, target in tokens}:
            sources = [source for source, target in tokens if target == t]
            share = 1 / len(sources)
            for s in sources:
                total = total + share * (
                    math.log(share) - readings[guide.layer][row, guide.head, t + shift, s].log()
                )
            count += 1
    return total, count


def assert_same_gradients(
    actual: Sequence[Tensor | None], expected: Sequence[Tensor | None]
) -> None:
    for a, b in zip(actual, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            torch.testing.assert_close(a, b, **CLOSE)


@pytest.mark.parametrize("row", ["before", "after"])
@pytest.mark.parametrize("settings", GUIDED)
def test_the_guided_loss_equals_the_plain_loop(settings: ModelSettings, row: str) -> None:
    model = make(settings)
    batch = collate(EXAMPLES)
    guided = guide(model, guided_row=row)
    loss = Objective(model, 0.1, guide=guided)(batch)
    unguided = Objective(model, 0.1)(batch)
    expected, count = plain_divergence(model, guided, batch)
    assert loss.guided is not None
    assert loss.linked is not None
    torch.testing.assert_close(loss.guided, expected, **CLOSE)
    assert int(loss.linked) == count == 7
    torch.testing.assert_close(loss.smoothed, unguided.smoothed + 0.5 * expected, **CLOSE)
    torch.testing.assert_close(loss.cross_entropy, unguided.cross_entropy, rtol=0, atol=0)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss.guided, parameters, allow_unused=True)
    expected_gradients = torch.autograd.grad(expected, parameters, allow_unused=True)
    assert_same_gradients(gradients, expected_gradients)


@pytest.mark.parametrize("settings", GUIDED)
def test_sentences_without_links_are_not_guided(settings: ModelSettings) -> None:
    model = make(settings)
    batch = collate([Example(example.source, example.target) for example in EXAMPLES])
    loss = Objective(model, 0.1, guide=guide(model))(batch)
    unguided = Objective(model, 0.1)(batch)
    assert (loss.guided, loss.linked) == (None, None)
    assert torch.equal(loss.smoothed, unguided.smoothed)


@pytest.mark.parametrize("settings", GUIDED)
def test_halves_of_a_batch_have_the_loss_of_the_whole(settings: ModelSettings) -> None:
    model = make(settings)
    objective = Objective(model, 0.1, guide=guide(model))
    batch = collate(EXAMPLES)
    whole = objective(batch).detached()
    parts = [objective(part).detached() for part in batch.split(3)]
    assert float(sum(part.guided for part in parts)) == pytest.approx(float(whole.guided), rel=1e-4)
    assert sum(int(part.linked) for part in parts) == int(whole.linked)


@pytest.mark.parametrize("settings", GUIDED)
def test_any_number_of_threads_gives_the_same_gradients(settings: ModelSettings) -> None:
    model = make(settings)
    objective = Objective(model.train(), 0.1, 2.0, guide(model))
    batches = [(part, f"1/1/{number}") for number, part in enumerate(collate(EXAMPLES).split(3))]
    gradients: list[list[Tensor | None]] = []
    for threads in (1, 2):
        workers = GradientWorkers(objective, "float32", torch.device("cpu"), threads)
        losses = workers.gradients(batches, 14)
        workers.close()
        assert all(isinstance(loss, Loss) and loss.guided is not None for loss in losses)
        assert not any(loss.guided.requires_grad for loss in losses if loss.guided is not None)
        gradients.append([None if p.grad is None else p.grad.clone() for p in model.parameters()])
        model.zero_grad(set_to_none=True)
    assert_same_gradients(*gradients)


def test_both_passes_of_rdrop_are_guided() -> None:
    model = make(GUIDED[0].values[0])
    batch = collate(EXAMPLES)
    once, twice = (Objective(model, 0.1, rdrop, guide(model))(batch) for rdrop in (0.0, 3.0))
    torch.testing.assert_close(once.guided, twice.guided, **CLOSE)
    torch.testing.assert_close(once.smoothed, twice.smoothed, **CLOSE)


# --- one head of one layer


def three_layers(**settings: Any) -> Model:
    sizes: dict[str, Any] = {"size": 16, "heads": 4, "feedforward": 16, "dropout": 0.0}
    encoder = TransformerEncoderSettings(layers=1, **sizes)
    decoder = TransformerDecoderSettings(layers=3, **sizes, **settings)
    return make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))


def test_the_gradient_goes_through_that_head_only() -> None:
    model = three_layers()
    loss = Objective(model, 0.1, guide=guide(model, guided_layer=2, guided_head=3))(
        collate(EXAMPLES)
    )
    loss.guided.backward()
    changed = {
        name for name, p in model.named_parameters() if p.grad is not None and bool(p.grad.any())
    }
    layer = "decoder.layers.1.cross_attention"
    assert {f"{layer}.query.weight", f"{layer}.key.weight"} <= changed
    assert not {
        name
        for name in changed
        if name.startswith((f"{layer}.value", f"{layer}.output", "decoder.layers.2"))
    }
    assert not {
        name
        for name in changed
        if name.startswith(("decoder.output", "decoder.layers.1.feedforward"))
    }
    for name in ("query", "key"):
        rows = model.get_parameter(f"{layer}.{name}.weight").grad
        assert rows is not None
        assert [bool(head.any()) for head in rows.view(4, 4, 16)] == [False, False, True, False]


def test_only_the_guided_layer_computes_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    model = three_layers()
    calls = []
    softmax = attention.masked_softmax
    spy = lambda scores, keep: (calls.append(scores.shape), softmax(scores, keep))[1]  # noqa: E731
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
        ({"guided_head": 5}, "guided_head: head 5 was asked for, and layer 2 has 4; give 1 to 4"),
    ],
)
def test_a_head_that_the_model_lacks_is_refused(settings: dict[str, int], message: str) -> None:
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
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)


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


def mirrored(generator: random.Random, size: int = 32) -> TrainingBatch:
    """Draw strings to copy, each token linked to the source token at the mirrored position."""
    rows = [string(generator) for _ in range(size)]
    links = [
        array("i", (n for t in range(len(row)) for n in (len(row) - 1 - t, t))) for row in rows
    ]
    return collate(
        [
            Example([*row, EOS], [*row, EOS], links=pairs)
            for row, pairs in zip(rows, links, strict=True)
        ]
    )


def accuracy(model: Model, guide: Guide, batch: TrainingBatch) -> float:
    """Return the share of linked tokens for which the head's largest weight is on a link."""
    with watch(model) as readings, torch.no_grad():
        model(Batch(batch.source, batch.source_keep), batch.target_in)
    assert batch.links is not None
    linked = batch.links.any(2)
    hits = readings[guide.layer][:, guide.head].argmax(2) == batch.links.argmax(2)
    return float(hits[linked].float().mean())


@pytest.mark.system
@pytest.mark.parametrize("kind", broad(kind for kind in DECODERS if "score" in kind.model_fields))
def test_a_guided_head_learns_links_that_an_unguided_one_does_not(kind: type[Settings]) -> None:
    sizes = {name: value for name, value in SIZES.items() if name in kind.model_fields}
    settings = ModelSettings(
        encoder=ENCODER, decoder=kind.parse({**sizes, "dropout": 0.0}, "the test"), share="none"
    )
    accuracies = {}
    for weight in (0.0, 2.0):
        torch.manual_seed(0)
        generator = random.Random(0)
        model = build(settings, SYMBOLS.stop, SYMBOLS.stop, True)
        objective = Objective(model, 0.0, guide=guide(model, weight) if weight else None)
        optimizer = torch.optim.Adam(model.parameters(), 1e-2, betas=(0.9, 0.98))
        for _ in range(60 if weight else 30):
            loss = objective(mirrored(generator))
            optimizer.zero_grad()
            (loss.smoothed / loss.tokens).backward()
            optimizer.step()
        accuracies[weight] = accuracy(model.eval(), guide(model), mirrored(random.Random(1)))
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
    examples = [_linked(generator) for _ in range(40)]
    folder.mkdir(parents=True, exist_ok=True)
    batches = BatchStream(examples, BatchingSettings(tokens=48, micro_batches=2), 1)
    return Trainer(
        model, batches, recipe, folder, lambda _: {"loss": 1.0, "chrf": 1.0, "bleu": 0.0}
    )


def _linked(generator: random.Random) -> Example:
    row = [generator.randrange(4, 20) for _ in range(generator.randint(1, 6))]
    return Example(
        [*row, EOS], [*row, EOS], links=array("i", (n for t in range(len(row)) for n in (t, t)))
    )


@pytest.mark.system
@pytest.mark.parametrize("rdrop", [pytest.param(0.0, marks=pytest.mark.slow), 1.0])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, rdrop: float) -> None:
    uninterrupted = trainer(recipe(rdrop=rdrop), tmp_path / "uninterrupted")
    uninterrupted.run()
    trainer(recipe(rdrop=rdrop, updates=7), tmp_path / "stopped").run()
    resumed = trainer(recipe(rdrop=rdrop), tmp_path / "stopped")
    assert resumed.resume()
    resumed.run()
    for name, weight in named_weights(uninterrupted.model).items():
        assert torch.equal(weight, named_weights(resumed.model)[name]), name
    unguided = trainer(recipe(rdrop=rdrop, guided=0.0), tmp_path / "unguided")
    unguided.run()
    assert any(
        not torch.equal(w, named_weights(unguided.model)[name])
        for name, w in named_weights(uninterrupted.model).items()
    )


@pytest.mark.system
def test_the_journal_has_the_divergence_of_the_guided_head(tmp_path: Path) -> None:
    trainer(recipe(updates=40, guided=1.0, validate_every=40), tmp_path / "run").run()
    guided = [
        line["guided"]
        for line in read_journal(tmp_path / "run" / "journal.jsonl")
        if line["event"] == "train"
    ]
    assert len(guided) == 20
    assert guided[-1] < 0.8 * guided[0]
    trainer(recipe(guided=0.0), tmp_path / "unguided").run()
    assert not any(
        "guided" in line for line in read_journal(tmp_path / "unguided" / "journal.jsonl")
    )


@pytest.mark.system
def test_alignments_come_from_the_guided_head_unless_another_was_chosen(tmp_path: Path) -> None:
    path = tmp_path / "alignment.json"
    default = {"symmetry": None, "with_reverse": "grow-diag"}
    trainer(recipe(guided_head=2, guided_row="after"), tmp_path).run()
    expected = {"layer": "decoder.layers.0.cross_attention", "head": 1, "shifted": True, **default}
    assert load_alignment(tmp_path) == expected
    resumed = trainer(recipe(guided_layer=2), tmp_path)
    resumed.resume()
    resumed.run()
    assert load_alignment(tmp_path) == {
        "layer": "decoder.layers.1.cross_attention",
        "head": 0,
        "shifted": False,
        **default,
    }
    # Written by a version without with_reverse.
    chosen = {
        "layer": "decoder.layers.0.cross_attention",
        "head": None,
        "shifted": True,
        "symmetry": None,
    }
    path.write_text(json.dumps(sealed(chosen, id="")), encoding="utf-8")
    trainer(recipe(), tmp_path).run()
    assert load_alignment(tmp_path) == {**chosen, **default}
