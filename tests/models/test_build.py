"""Putting models together: what is shared, and what cannot be."""

from __future__ import annotations

import pytest

from regard.errors import ConfigurationError
from regard.models import ModelSettings, build, count

TRANSFORMER = {"kind": "transformer", "layers": 1, "size": 8, "heads": 2, "feedforward": 8}
RECURRENT = {"kind": "recurrent", "size": 8, "embedding": 12}


def _settings(encoder: dict[str, object], decoder: dict[str, object], **others: object) -> ModelSettings:
    return ModelSettings.parse({"encoder": encoder, "decoder": decoder, **others}, "test")


def test_embeddings_are_shared_as_far_as_they_can_be() -> None:
    same = build(_settings(TRANSFORMER, TRANSFORMER), 20, 20, joint=True)
    assert same.encoder.embedding.weight is same.decoder.embedding.weight is same.decoder.output.weight
    other = build(_settings(TRANSFORMER, RECURRENT), 20, 20, joint=True)
    assert other.encoder.embedding.weight is not other.decoder.embedding.weight
    assert other.decoder.embedding.weight is other.decoder.output.weight
    apart = build(_settings(TRANSFORMER, TRANSFORMER), 20, 30, joint=False)
    assert apart.decoder.output.weight.shape == (30, 8)
    assert apart.encoder.embedding.weight.shape == (20, 8)


def test_shared_weights_count_once() -> None:
    none = count(build(_settings(TRANSFORMER, TRANSFORMER, share="none"), 20, 20, joint=True))
    target = count(build(_settings(TRANSFORMER, TRANSFORMER, share="target"), 20, 20, joint=True))
    shared = count(build(_settings(TRANSFORMER, TRANSFORMER, share="all"), 20, 20, joint=True))
    assert none - target == target - shared == 20 * 8


def test_all_contradictions_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        build(_settings({**TRANSFORMER, "heads": 3}, RECURRENT, share="all"), 20, 20, joint=False)
    assert len(caught.value.causes) == 3
    assert "model.encoder: size 8 cannot be cut into 3 heads" in caught.value.causes[0]
    assert "one vocabulary" in caught.value.causes[1]
    assert "got 8 in the encoder and 12 in the decoder" in caught.value.causes[2]
