"""Law 9: copying and reversing are learnt, and the best head attends along the (anti-)diagonal."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from broad import broad

from laws.covering import ENCODERS_BY_INPUT
from laws.learning import SYMBOLS, TASKS, Colours, Task, accuracy, best_head, trained
from regard.attention import SCORES, Attention, record_attention
from regard.common.settings import Settings
from regard.data.vocabulary import BOS
from regard.models import DECODERS, ENCODERS, ModelSettings, build
from regard.models.recurrent import (
    NoAttentionDecoderSettings,
    RecurrentDecoderSettings,
    RecurrentEncoderSettings,
)
from regard.models.vision import ResNetEncoderSettings, ViTEncoderSettings

pytestmark = pytest.mark.system

SIZES: dict[str, Any] = {
    "size": 32,
    "layers": 2,
    "heads": 2,
    "feedforward": 64,
    "attention_size": 32,
    "embedding": 32,
    "dropout": 0.0,
}
TEXT_ENCODER = RecurrentEncoderSettings(size=24, embedding=32, dropout=0.0)
DECODER = RecurrentDecoderSettings(size=48, embedding=32, attention_size=32, dropout=0.0)


def sized(kind: type[Settings]) -> Settings:
    return kind.parse(
        {name: value for name, value in SIZES.items() if name in kind.model_fields}, "a law"
    )


def check(
    encoder: Settings,
    decoder: Settings,
    task: Task,
    updates: int = 600,
    learning_rate: float = 5e-3,
    aligned: float = 0.9,
) -> None:
    settings = ModelSettings(encoder=encoder, decoder=decoder, share="none")
    model = trained(settings, task, updates, learning_rate)
    assert accuracy(model, task) >= 0.95
    has_attention = any(
        isinstance(module, Attention) and module.role == "cross" for module in model.modules()
    )
    assert not has_attention or best_head(model, task) >= aligned


def test_reversing_is_learnt_and_the_attention_shows_it() -> None:
    check(TEXT_ENCODER, DECODER, Task("reverse"), updates=200, learning_rate=1e-2)


IMAGE_ENCODERS: dict[str, Settings] = {
    "resnet": ResNetEncoderSettings(depths=(1, 1), width=16, size=32, dropout=0.0),
    "vit": ViTEncoderSettings(
        patch_size=4, layers=1, heads=2, size=32, feedforward=64, dropout=0.0
    ),
}


@pytest.mark.slow
def test_naming_colours_in_reading_order_is_learnt_and_the_attention_shows_it() -> None:
    check(IMAGE_ENCODERS["resnet"], DECODER, Colours(), updates=250, learning_rate=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DECODERS, ids=lambda kind: kind.model_fields["kind"].default)
@pytest.mark.parametrize("encoder", IMAGE_ENCODERS)
def test_every_image_encoder_learns_with_every_decoder(encoder: str, kind: type[Settings]) -> None:
    decoder = sized(kind)
    without_attention = isinstance(decoder, NoAttentionDecoderSettings)
    decoder = decoder.with_values(size=128, layers=1) if without_attention else decoder
    # Receptive fields overlap, so the colour of a square can also be read from a neighbouring cell.
    check(
        IMAGE_ENCODERS[encoder],
        decoder,
        Colours(),
        updates=1800 if without_attention else 1000,
        aligned=0.8,
    )


@pytest.mark.parametrize(
    "kind", broad(DECODERS), ids=lambda kind: kind.model_fields["kind"].default
)
def test_before_training_no_target_is_right_and_no_head_is_aligned(kind: type[Settings]) -> None:
    settings = ModelSettings(encoder=TEXT_ENCODER, decoder=sized(kind), share="none")
    untrained = build(settings, SYMBOLS.stop, SYMBOLS.stop, True)
    for name in TASKS:
        assert accuracy(untrained.eval(), Task(name)) == 0
        assert best_head(untrained.eval(), Task(name)) < 0.5


def test_unseen_strings_are_not_in_training_batches() -> None:
    task = Task("copy")
    rng = random.Random(0)
    unseen = {tuple(string) for string in task.unseen()}
    for _ in range(200):
        batch = task.batch(rng)
        keep = batch.source != 0
        assert not unseen & {
            tuple(row[mask][:-1].tolist()) for row, mask in zip(batch.source, keep, strict=True)
        }


@pytest.mark.slow
@pytest.mark.parametrize("task", [Task(name) for name in TASKS], ids=TASKS)
@pytest.mark.parametrize(
    "kind", ENCODERS_BY_INPUT["text"], ids=lambda kind: kind.model_fields["kind"].default
)
def test_every_encoder_learns_to_copy_and_to_reverse(kind: type[Settings], task: Task) -> None:
    check(sized(kind), DECODER, task)


@pytest.mark.slow
@pytest.mark.parametrize("task", [Task(name) for name in TASKS], ids=TASKS)
@pytest.mark.parametrize("kind", DECODERS, ids=lambda kind: kind.model_fields["kind"].default)
def test_every_decoder_learns_to_copy_and_to_reverse(kind: type[Settings], task: Task) -> None:
    decoder = sized(kind)
    if isinstance(
        decoder, NoAttentionDecoderSettings
    ):  # one vector holds the source: larger, trained for longer
        check(TEXT_ENCODER, decoder.with_values(size=128, layers=1), task, updates=1800)
    else:
        check(TEXT_ENCODER, decoder, task)


@pytest.mark.slow
@pytest.mark.parametrize("task", [Task(name) for name in TASKS], ids=TASKS)
@pytest.mark.parametrize("name", sorted({*SCORES} - {"cosine_plain"}))
def test_every_score_learns_to_copy_and_to_reverse(name: str, task: Task) -> None:
    check(TEXT_ENCODER, DECODER.with_values(score=name), task)


@pytest.mark.slow
@pytest.mark.parametrize("task", [Task(name) for name in TASKS], ids=TASKS)
def test_a_cosine_without_a_factor_learns_with_weights_that_stay_even(task: Task) -> None:
    """Scores between −1 and 1 give the largest of S weights at most e² / (e² + S − 1): none can
    point at one place.
    """
    decoder = DECODER.with_values(score="cosine_plain")
    model = trained(
        ModelSettings(encoder=TEXT_ENCODER, decoder=decoder, share="none"), task, 600, 5e-3
    )
    assert accuracy(model, task) >= 0.95
    for string in task.unseen():
        with record_attention(model) as readings:
            model(task.source_batch([string]), torch.tensor([[BOS, *task.target(string)]]))
        assert readings
        for weights in readings.values():
            largest = math.e**2 / (math.e**2 + weights.shape[-1] - 1)
            assert float(weights.max()) <= largest + 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("task", [Task(name) for name in TASKS], ids=TASKS)
def test_a_transformer_learns_to_copy_and_to_reverse(task: Task) -> None:
    encoder, decoder = (
        next(k for k in kinds if k.__name__.startswith("Transformer"))
        for kinds in (ENCODERS, DECODERS)
    )
    check(sized(encoder), sized(decoder), task)
