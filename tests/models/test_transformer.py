"""Transformer variants: learned positions, local attention, final norms, attention scores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from laws.models import make, sentences, targets
from torch import nn

from regard.attention import SCORES, watch
from regard.models import Model, ModelSettings
from regard.models.transformer import (
    TransformerDecoderSettings,
    TransformerEncoderSettings,
)

SIZES: dict[str, Any] = {
    "layers": 2,
    "size": 16,
    "heads": 2,
    "feedforward": 24,
    "dropout": 0.0,
}


def model(**values: Any) -> Model:
    encoder = TransformerEncoderSettings(**SIZES, **values)
    decoder = TransformerDecoderSettings(**SIZES, **values)
    return make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))


@torch.no_grad()
def test_learned_positions_limit_targets_and_not_sources() -> None:
    transformer = model(positions="learned", max_positions=12)

    assert transformer.max_target == 12
    assert transformer(sentences(30, 4), targets(2, 20)).isfinite().all()
    assert model(positions="sinusoidal").max_target is None


@torch.no_grad()
def test_local_self_attention_attends_to_near_positions_only() -> None:
    transformer = model(window=2)
    positions = torch.arange(9)
    distance = (positions[:, None] - positions).abs()
    with watch(transformer) as readings:
        transformer(sentences(9), targets(1, 7))

    for name, weights in readings.items():
        _, _, T, S = weights.shape
        is_far = distance[:T, :S] > 2
        is_local = name.endswith("self_attention")
        assert bool(weights[:, :, is_far].any()) != is_local, name


@pytest.mark.parametrize(
    ("norm", "final_norm", "has_norm"),
    [
        ("pre", "auto", True),
        ("post", "auto", False),
        ("pre", "off", False),
        ("post", "on", True),
    ],
)
def test_the_final_norm_follows_its_setting(
    norm: str, final_norm: str, has_norm: bool
) -> None:
    transformer = model(norm=norm, final_norm=final_norm)
    for side in (transformer.encoder, transformer.decoder):
        assert isinstance(side.norm, nn.LayerNorm) == has_norm


def test_every_score_has_its_own_weights_in_every_attention() -> None:
    for name, kind in SCORES.items():
        scores = [m.score for m in model(score=name).modules() if hasattr(m, "role")]
        assert [type(score) for score in scores] == [kind] * 6
