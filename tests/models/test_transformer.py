"""Transformer variants: learned positions, local attention, gated activations, final norms,
attention scores.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from laws.models import beam_rows, make, sentences, targets
from torch import nn

from regard.attention import SCORES, watch
from regard.layers.feedforward import FeedForward
from regard.layers.positional_encoding import LearnedPositions
from regard.models import Model, ModelSettings, ctranslate2_obstacles, huggingface_obstacles
from regard.models.transformer import TransformerDecoderSettings, TransformerEncoderSettings
from regard.search import SearchSettings, search

SIZES: dict[str, Any] = {
    "layers": 2,
    "size": 16,
    "heads": 2,
    "feedforward": 24,
    "dropout": 0.0,
    "activation": "gelu",
}
BATCH = sentences(9, 4, 1)


def model(**values: Any) -> Model:
    encoder = TransformerEncoderSettings(**SIZES, **values)
    decoder = TransformerDecoderSettings(**SIZES, **values)
    return make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))


def test_swiglu_is_its_formula() -> None:
    layer = FeedForward(6, 5, "swiglu")
    x = torch.randn(2, 3, 6)
    (w, v), (b, c) = layer.widen.weight.split(5), layer.widen.bias.split(5)
    expected = (F.silu(x @ w.T + b) * (x @ v.T + c)) @ layer.narrow.weight.T + layer.narrow.bias
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-5)


def test_positions_beyond_the_learned_ones_have_the_last_vector() -> None:
    positions = LearnedPositions(5, 4)
    vectors = positions(torch.tensor([[0, 3, 4, 5, 90]]))[0]
    torch.testing.assert_close(vectors, positions.weight[[0, 3, 4, 4, 4]])


@torch.no_grad()
def test_learned_positions_limit_targets_and_not_sources() -> None:
    transformer = model(positions="learned", max_positions=12)
    transformer.decoder.output.bias[3] = -60.0  # end of sentence is never selected
    source = transformer.encode(sentences(30, 4))
    search_settings = SearchSettings(beam=2, max_ratio=2.0, max_extra=50)
    assert transformer.max_target == 12
    assert [
        len(hypotheses[0].ids) + 1
        for hypotheses in search(transformer, source, [30, 4], search_settings)
    ] == [
        12,
        12,
    ]
    assert model(positions="sinusoidal").max_target is None


@torch.no_grad()
@pytest.mark.parametrize("window", [1, 3])
def test_local_self_attention_attends_to_near_positions_only(window: int) -> None:
    transformer = model(window=window)
    positions = torch.arange(9)
    with watch(transformer) as readings:
        transformer(BATCH, targets(3, 7))
    for name, weights in readings.items():
        distance = (positions[:, None] - positions[: weights.shape[-1]]).abs()[: weights.shape[2]]
        far = distance > window
        row = weights[0, :, :, :]
        if name.endswith("self_attention"):
            assert not row[:, far].any()
            assert bool(
                (
                    row[
                        :,
                        ~far
                        & (positions[: weights.shape[2], None] >= positions[: weights.shape[-1]]),
                    ]
                    > 0
                ).all()
            )
        else:
            assert bool((row[:, far] > 0).any()), "cross-attention is not local"


@torch.no_grad()
def test_a_window_as_wide_as_the_sentence_changes_nothing() -> None:
    windowed = model(window=20)
    unrestricted = model()
    unrestricted.load_state_dict(windowed.state_dict())
    torch.testing.assert_close(
        windowed(BATCH, targets(3, 7)), unrestricted(BATCH, targets(3, 7)), rtol=0, atol=1e-5
    )


@torch.no_grad()
def test_a_window_skips_padding_so_the_batch_changes_nothing() -> None:
    """A short cache joined to a long one has a gap of padding; the positions before the gap are
    near all the same.
    """
    transformer = model(window=2)
    batch = sentences(5, 3)
    target = targets(2, 7)
    source = transformer.encode(batch)
    expected = transformer(batch, target)
    _, long = transformer.step(
        target[:1, :5],
        transformer.begin(source.select(torch.tensor([0]))),
        source.select(torch.tensor([0])),
    )
    _, short = transformer.step(
        target[1:, :2],
        transformer.begin(source.select(torch.tensor([1]))),
        source.select(torch.tensor([1])),
    )
    next_tokens = torch.stack([target[0, 5:7], target[1, 2:4]])
    features, _ = transformer.step(next_tokens, long.join(short), source)
    torch.testing.assert_close(
        features, torch.stack([expected[0, 5:7], expected[1, 2:4]]), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize(
    ("norm", "final_norm", "has_norm"),
    [
        ("pre", "auto", True),
        ("post", "auto", False),
        ("pre", "off", False),
        ("post", "on", True),
        ("pre", "on", True),
    ],
)
def test_the_final_norm_follows_its_setting(norm: str, final_norm: str, has_norm: bool) -> None:
    transformer = model(norm=norm, final_norm=final_norm)
    for side in (transformer.encoder, transformer.decoder):
        assert isinstance(side.norm, nn.LayerNorm) == has_norm


@torch.no_grad()
def test_encoder_and_decoder_may_differ_in_layers() -> None:
    encoder = TransformerEncoderSettings(**{**SIZES, "layers": 3})
    transformer = make(
        ModelSettings(encoder=encoder, decoder=TransformerDecoderSettings(**{**SIZES, "layers": 1}))
    )
    assert (len(transformer.encoder.layers), len(transformer.decoder.layers)) == (3, 1)
    source = transformer.encode(BATCH)
    features, _ = transformer.step(
        targets(6, 4), transformer.begin(source).select(beam_rows(3, 2)), source
    )
    assert features.shape == (6, 4, 16)


def test_every_score_has_its_own_weights_in_every_attention() -> None:
    for name, kind in SCORES.items():
        attentions = [m for m in model(score=name).modules() if hasattr(m, "role")]
        assert len(attentions) == 2 + 2 * 2
        assert all(type(attention.score) is kind for attention in attentions)


def test_all_obstacles_to_an_export_are_listed_at_once() -> None:
    values: dict[str, Any] = {
        "score": "cosine",
        "window": 3,
        "positions": "learned",
        "activation": "swiglu",
    }
    encoder = TransformerEncoderSettings(**{**SIZES, **values})
    settings = ModelSettings(encoder=encoder, decoder=TransformerDecoderSettings(**SIZES))
    obstacles = {
        "CTranslate2": ctranslate2_obstacles(settings),
        "Marian": huggingface_obstacles(settings, joint=True),
    }
    for toolkit, names in (("CTranslate2", ("score", "window")), ("Marian", values)):
        for name in names:
            assert any(
                cause.startswith(f"model.encoder.{name} is {values[name]!r}")
                for cause in obstacles[toolkit]
            )
    plain = ModelSettings(
        encoder=TransformerEncoderSettings(**SIZES), decoder=TransformerDecoderSettings(**SIZES)
    )
    assert ctranslate2_obstacles(plain) == []
