"""Copying and reversing are learnt, and the best head attends along the (anti-)diagonal."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from laws.covering import ENCODERS_BY_INPUT
from laws.learning import TASKS, Task, accuracy, best_head, trained
from laws.models import label
from regard.attention import SCORES
from regard.common.settings import Settings
from regard.data.batch import pad_images
from regard.data.vocabulary import EOS
from regard.models import DECODERS, Batch, ModelSettings
from regard.models.recurrent import (
    NoAttentionDecoderSettings,
    RecurrentDecoderSettings,
    RecurrentEncoderSettings,
)
from regard.models.transformer import (
    TransformerDecoderSettings,
    TransformerEncoderSettings,
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
DECODER = RecurrentDecoderSettings(
    size=48, embedding=32, attention_size=32, dropout=0.0
)


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
    size: int = 64,
) -> None:
    has_attention = not isinstance(decoder, NoAttentionDecoderSettings)
    settings = ModelSettings(encoder=encoder, decoder=decoder, share="none")
    updates = updates if has_attention else 1800
    model = trained(settings, task, updates, learning_rate, size)

    assert accuracy(model, task) >= 0.95
    assert not has_attention or best_head(model, task) >= 0.9


def test_reversing_is_learnt_and_the_attention_shows_it() -> None:
    check(TEXT_ENCODER, DECODER, Task("reverse"), 120, learning_rate=1.5e-2, size=32)


MODELS: list[tuple[Settings, Settings]] = [
    *((sized(kind), DECODER) for kind in ENCODERS_BY_INPUT["text"]),
    *((TEXT_ENCODER, sized(kind)) for kind in DECODERS),
    *((TEXT_ENCODER, DECODER.with_values(score=name)) for name in SCORES),
    (sized(TransformerEncoderSettings), sized(TransformerDecoderSettings)),
]
"""Every encoder, every decoder and every score, and a Transformer."""


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("encoder", "decoder"), MODELS, ids=label)
def test_every_part_of_a_model_learns_to_copy_and_to_reverse(
    encoder: Settings, decoder: Settings, task: str
) -> None:
    if getattr(decoder, "score", "") != "cosine_plain":  # which cannot be sharp
        check(encoder, decoder, Task(task))


class Colours(Task):
    """The symbols are the colours of squares, which stand in rows of four."""

    def source_batch(self, strings: list[list[int]]) -> Batch:
        return Batch(*pad_images([painted(string) for string in strings]))


def painted(string: list[int]) -> Tensor:
    black = [0] * (-len(string) % 4)
    codes = torch.tensor([*(symbol - EOS for symbol in string), *black])
    colours = torch.stack([codes % 3, codes // 3 % 3, codes // 9]) / 2
    squares = colours.view(3, -1, 4)
    return squares.repeat_interleave(4, 1).repeat_interleave(4, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoder",
    [
        ResNetEncoderSettings(depths=(1, 1), width=16, size=32, dropout=0.0),
        ViTEncoderSettings(
            patch_size=4, layers=1, heads=2, size=32, feedforward=64, dropout=0.0
        ),
    ],
    ids=lambda settings: settings.kind,
)
def test_image_encoders_learn_to_name_colours_in_reading_order(
    encoder: Settings,
) -> None:
    check(encoder, DECODER, Colours("copy"))
