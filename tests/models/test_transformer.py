"""Transformer variants: learned positions, local attention, gated activations, final norms, attention scores."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from laws.models import beam_rows, make, sentences, targets
from torch import nn

from regard.attention import SCORES, watch
from regard.layers.feedforward import FeedForward
from regard.layers.positions import LearnedPositions
from regard.models import Model, ModelSettings, ctranslate2_obstacles, huggingface_obstacles
from regard.models.transformer import TransformerDecoderSettings, TransformerEncoderSettings
from regard.search import SearchSettings, search

SIZES: dict[str, Any] = {"layers": 2, "size": 16, "heads": 2, "feedforward": 24, "dropout": 0.0, "activation": "gelu"}
BATCH = sentences(9, 4, 1)


def model(**chosen: Any) -> Model:
    encoder, decoder = TransformerEncoderSettings(**SIZES, **chosen), TransformerDecoderSettings(**SIZES, **chosen)
    return make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))


def test_swiglu_is_its_formula() -> None:
    layer, x = FeedForward(6, 5, "swiglu"), torch.randn(2, 3, 6)
    (w, v), (b, c) = layer.widen.weight.split(5), layer.widen.bias.split(5)
    wanted = (F.silu(x @ w.T + b) * (x @ v.T + c)) @ layer.narrow.weight.T + layer.narrow.bias
    torch.testing.assert_close(layer(x), wanted, rtol=0, atol=1e-5)


def test_learnt_positions_have_a_vector_each_and_the_last_serves_all_after_it() -> None:
    places = LearnedPositions(5, 4)
    found = places(torch.tensor([[0, 3, 4, 5, 90]]))[0]
    torch.testing.assert_close(found, places.weight[[0, 3, 4, 4, 4]])


@torch.no_grad()
def test_where_positions_are_learnt_no_target_is_longer_and_longer_sources_are_read() -> None:
    one = model(positions="learned", max_positions=12)
    one.decoder.output.bias[3] = -60.0  # the end of sentence is never wanted
    source = one.encode(sentences(30, 4))
    chosen = SearchSettings(beam=2, max_ratio=2.0, max_extra=50)
    assert one.max_target == 12
    assert [len(found[0].ids) + 1 for found in search(one, source, [30, 4], chosen)] == [12, 12]
    assert model(positions="sinusoidal").max_target is None


@torch.no_grad()
@pytest.mark.parametrize("window", [1, 3])
def test_restricted_self_attention_reads_near_positions_only(window: int) -> None:
    one, near = model(window=window), torch.arange(9)
    with watch(one) as readings:
        one(BATCH, targets(3, 7))
    for name, weights in readings.items():
        distance = (near[:, None] - near[: weights.shape[-1]]).abs()[: weights.shape[2]]
        far, row = distance > window, weights[0, :, :, :]
        if name.endswith("self_attention"):
            assert not row[:, far].any()
            assert bool((row[:, ~far & (near[: weights.shape[2], None] >= near[: weights.shape[-1]])] > 0).all())
        else:
            assert bool((row[:, far] > 0).any()), "the source is read whole"


@torch.no_grad()
def test_a_window_as_wide_as_the_sentence_is_none() -> None:
    wide, whole = model(window=20), model()
    whole.load_state_dict(wide.state_dict())
    torch.testing.assert_close(wide(BATCH, targets(3, 7)), whole(BATCH, targets(3, 7)), rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_window_counts_what_may_be_read_so_company_changes_nothing() -> None:
    """A short past that was joined to a long one has a gap, and what stands before the gap is near all the same."""
    one, batch, target = model(window=2), sentences(5, 3), targets(2, 7)
    source = one.encode(batch)
    wanted = one(batch, target)
    _, long = one.step(target[:1, :5], one.begin(source.select(torch.tensor([0]))), source.select(torch.tensor([0])))
    _, short = one.step(target[1:, :2], one.begin(source.select(torch.tensor([1]))), source.select(torch.tensor([1])))
    further = torch.stack([target[0, 5:7], target[1, 2:4]])
    found, _ = one.step(further, long.join(short), source)
    torch.testing.assert_close(found, torch.stack([wanted[0, 5:7], wanted[1, 2:4]]), rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("norm", "final_norm", "there"),
    [("pre", "auto", True), ("post", "auto", False), ("pre", "off", False), ("post", "on", True), ("pre", "on", True)],
)
def test_the_last_norm_is_where_it_was_asked_for(norm: str, final_norm: str, there: bool) -> None:
    one = model(norm=norm, final_norm=final_norm)
    for side in (one.encoder, one.decoder):
        assert isinstance(side.norm, nn.LayerNorm) == there


@torch.no_grad()
def test_both_sides_may_differ_in_layers() -> None:
    encoder = TransformerEncoderSettings(**{**SIZES, "layers": 3})
    one = make(ModelSettings(encoder=encoder, decoder=TransformerDecoderSettings(**{**SIZES, "layers": 1})))
    assert (len(one.encoder.layers), len(one.decoder.layers)) == (3, 1)
    source = one.encode(BATCH)
    features, _ = one.step(targets(6, 4), one.begin(source).select(beam_rows(3, 2)), source)
    assert features.shape == (6, 4, 16)


def test_every_score_has_its_own_weights_in_every_read() -> None:
    for name, kind in SCORES.items():
        reads = [m for m in model(score=name).modules() if hasattr(m, "role")]
        assert len(reads) == 2 + 2 * 2
        assert all(type(read.score) is kind for read in reads)


def test_all_that_other_toolkits_lack_is_named_at_once() -> None:
    chosen: dict[str, Any] = {"score": "cosine", "window": 3, "positions": "learned", "activation": "swiglu"}
    encoder = TransformerEncoderSettings(**{**SIZES, **chosen})
    settings = ModelSettings(encoder=encoder, decoder=TransformerDecoderSettings(**SIZES))
    lacking = {"CTranslate2": ctranslate2_obstacles(settings), "Marian": huggingface_obstacles(settings, joint=True)}
    for toolkit, names in (("CTranslate2", ("score", "window")), ("Marian", chosen)):
        for name in names:
            assert any(cause.startswith(f"model.encoder.{name} is {chosen[name]!r}") for cause in lacking[toolkit])
    plain = ModelSettings(encoder=TransformerEncoderSettings(**SIZES), decoder=TransformerDecoderSettings(**SIZES))
    assert ctranslate2_obstacles(plain) == []
