"""Law 9: copying and reversing are learnt, and the best head looks along the (anti-)diagonal."""

from __future__ import annotations

import random
from typing import Any

import pytest

from laws.learning import SYMBOLS, TASKS, Colours, Task, accuracy, best_head, learnt
from laws.models import READERS
from regard.attention import SCORES, Attention
from regard.models import DECODERS, ENCODERS, ModelSettings, build
from regard.models.recurrent import NoAttentionDecoderSettings, RecurrentDecoderSettings, RecurrentEncoderSettings
from regard.models.vision import ResNetEncoderSettings, ViTEncoderSettings
from regard.settings import Settings

SIZES: dict[str, Any] = {
    "size": 32,
    "layers": 2,
    "heads": 2,
    "feedforward": 64,
    "attention_size": 32,
    "embedding": 32,
    "dropout": 0.0,
}
READER = RecurrentEncoderSettings(size=24, embedding=32, dropout=0.0)
WRITER = RecurrentDecoderSettings(size=48, embedding=32, attention_size=32, dropout=0.0)


def sized(kind: type[Settings]) -> Settings:
    return kind.parse({name: value for name, value in SIZES.items() if name in kind.model_fields}, "a law")


def check(
    encoder: Settings, decoder: Settings, task: Task, updates: int = 600, rate: float = 5e-3, looking: float = 0.9
) -> None:
    settings = ModelSettings(encoder=encoder, decoder=decoder, share="none")
    model = learnt(settings, task, updates, rate)
    assert accuracy(model, task) >= 0.95
    looks = any(isinstance(module, Attention) and module.role == "cross" for module in model.modules())
    assert not looks or best_head(model, task) >= looking


def test_reversing_is_learnt_and_the_attention_shows_it() -> None:
    check(READER, WRITER, Task("reverse"), updates=300, rate=1e-2)


SEEING: dict[str, Settings] = {
    "resnet": ResNetEncoderSettings(depths=(1, 1), width=16, size=32, dropout=0.0),
    "vit": ViTEncoderSettings(patch_size=4, layers=1, heads=2, size=32, feedforward=64, dropout=0.0),
}


def test_naming_colours_as_one_reads_is_learnt_and_the_attention_shows_it() -> None:
    check(SEEING["resnet"], WRITER, Colours(), updates=250, rate=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DECODERS, ids=lambda kind: kind.model_fields["kind"].default)
@pytest.mark.parametrize("encoder", SEEING)
def test_every_encoder_of_images_learns_with_every_decoder(encoder: str, kind: type[Settings]) -> None:
    decoder = sized(kind)
    plain = isinstance(decoder, NoAttentionDecoderSettings)
    decoder = decoder.with_values(size=128, layers=1) if plain else decoder
    # Cells know of their neighbours, so some of what is said of one can be read next to it.
    check(SEEING[encoder], decoder, Colours(), updates=1800 if plain else 1000, looking=0.8)


def test_before_learning_nothing_is_right_and_no_head_looks_where_it_should() -> None:
    for decoder in (sized(kind) for kind in DECODERS):
        untrained = build(
            ModelSettings(encoder=READER, decoder=decoder, share="none"), SYMBOLS.stop, SYMBOLS.stop, True
        )
        for name in TASKS:
            assert accuracy(untrained.eval(), Task(name)) == 0
            assert best_head(untrained.eval(), Task(name)) < 0.5


def test_what_is_tested_was_not_trained_on() -> None:
    task, chance = Task("copy"), random.Random(0)
    unseen = {tuple(one) for one in task.unseen()}
    for _ in range(200):
        batch = task.batch(chance)
        keep = batch.source != 0
        assert not unseen & {tuple(row[mask][:-1].tolist()) for row, mask in zip(batch.source, keep, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("task", [Task(name) for name in TASKS], ids=TASKS)
@pytest.mark.parametrize("kind", READERS["text"], ids=lambda kind: kind.model_fields["kind"].default)
def test_every_encoder_learns_to_copy_and_to_reverse(kind: type[Settings], task: Task) -> None:
    check(sized(kind), WRITER, task)


@pytest.mark.slow
@pytest.mark.parametrize("task", [Task(name) for name in TASKS], ids=TASKS)
@pytest.mark.parametrize("kind", DECODERS, ids=lambda kind: kind.model_fields["kind"].default)
def test_every_decoder_learns_to_copy_and_to_reverse(kind: type[Settings], task: Task) -> None:
    decoder = sized(kind)
    if isinstance(
        decoder, NoAttentionDecoderSettings
    ):  # all goes through one vector, so that is larger and takes longer
        check(READER, decoder.with_values(size=128, layers=1), task, updates=1800)
    else:
        check(READER, decoder, task)


@pytest.mark.slow
@pytest.mark.parametrize("task", [Task(name) for name in TASKS], ids=TASKS)
@pytest.mark.parametrize("name", SCORES)
def test_every_score_learns_to_copy_and_to_reverse(name: str, task: Task) -> None:
    check(READER, WRITER.with_values(score=name), task)


@pytest.mark.slow
@pytest.mark.parametrize("task", [Task(name) for name in TASKS], ids=TASKS)
def test_a_transformer_learns_to_copy_and_to_reverse(task: Task) -> None:
    encoder, decoder = (
        next(k for k in kinds if k.__name__.startswith("Transformer")) for kinds in (ENCODERS, DECODERS)
    )
    check(sized(encoder), sized(decoder), task)
