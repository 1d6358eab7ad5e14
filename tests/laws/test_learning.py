"""Copying and reversing are learnt, and the best head attends along the (anti-)diagonal."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from laws.covering import ENCODERS_BY_INPUT
from laws.learning import TASKS, Colours, Task, accuracy, best_head, trained
from regard.attention import SCORES, record_attention
from regard.common.settings import Settings
from regard.data.vocabulary import BOS
from regard.models import DECODERS, ModelSettings
from regard.models.recurrent import (
    NoAttentionDecoderSettings,
    RecurrentDecoderSettings,
    RecurrentEncoderSettings,
)
from regard.models.transformer import TransformerDecoderSettings, TransformerEncoderSettings
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
IMAGE_ENCODERS: dict[str, Settings] = {
    "resnet": ResNetEncoderSettings(depths=(1, 1), width=16, size=32, dropout=0.0),
    "vit": ViTEncoderSettings(
        patch_size=4, layers=1, heads=2, size=32, feedforward=64, dropout=0.0
    ),
}


def sized(kind: type[Settings]) -> Settings:
    values = {name: value for name, value in SIZES.items() if name in kind.model_fields}
    if kind is NoAttentionDecoderSettings:
        values |= {"size": 128, "layers": 1}  # one vector holds the source
    return kind.parse(values, "a law")


def check(
    encoder: Settings,
    decoder: Settings,
    task: Task,
    updates: int = 600,
    learning_rate: float = 5e-3,
    aligned: float = 0.9,
) -> None:
    has_attention = not isinstance(decoder, NoAttentionDecoderSettings)
    settings = ModelSettings(encoder=encoder, decoder=decoder, share="none")
    model = trained(settings, task, updates if has_attention else 1800, learning_rate)

    assert accuracy(model, task) >= 0.95
    assert not has_attention or best_head(model, task) >= aligned


def kind_of(value: Any) -> str:
    return str(value.model_fields["kind"].default if isinstance(value, type) else value)


def test_reversing_is_learnt_and_the_attention_shows_it() -> None:
    check(TEXT_ENCODER, DECODER, Task("reverse"), updates=200, learning_rate=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DECODERS, ids=kind_of)
@pytest.mark.parametrize("encoder", IMAGE_ENCODERS)
def test_every_image_encoder_learns_with_every_decoder(encoder: str, kind: type[Settings]) -> None:
    # Receptive fields overlap, so the colour of a square can also be read from a neighbouring cell.
    check(IMAGE_ENCODERS[encoder], sized(kind), Colours(), updates=1000, aligned=0.8)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ENCODERS_BY_INPUT["text"], ids=kind_of)
def test_every_encoder_learns_to_copy_and_to_reverse(kind: type[Settings], task: str) -> None:
    check(sized(kind), DECODER, Task(task))


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", DECODERS, ids=kind_of)
def test_every_decoder_learns_to_copy_and_to_reverse(kind: type[Settings], task: str) -> None:
    check(TEXT_ENCODER, sized(kind), Task(task))


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", sorted({*SCORES} - {"cosine_plain"}))
def test_every_score_learns_to_copy_and_to_reverse(name: str, task: str) -> None:
    check(TEXT_ENCODER, DECODER.with_values(score=name), Task(task))


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_cosine_without_a_factor_learns_with_weights_that_stay_even(name: str) -> None:
    """Scores between −1 and 1 give the largest of S weights at most e² / (e² + S − 1): none can
    point at one place.
    """
    task = Task(name)
    decoder = DECODER.with_values(score="cosine_plain")
    settings = ModelSettings(encoder=TEXT_ENCODER, decoder=decoder, share="none")
    model = trained(settings, task, 600, 5e-3)

    assert accuracy(model, task) >= 0.95

    for string in task.unseen():
        with record_attention(model) as readings:
            model(task.source_batch([string]), torch.tensor([[BOS, *task.target(string)]]))
        assert readings

        for weights in readings.values():
            largest = math.e**2 / (math.e**2 + weights.shape[-1] - 1)
            assert float(weights.max()) <= largest + 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_transformer_learns_to_copy_and_to_reverse(task: str) -> None:
    check(sized(TransformerEncoderSettings), sized(TransformerDecoderSettings), Task(task))
