"""Law 10: without positions, reordered input gives the same outputs reordered; with them it does not."""

from __future__ import annotations

import pytest
import torch

from laws.models import make, sentences, targets, variants
from regard.models import DECODERS, Batch, ModelSettings
from regard.models.transformer import TransformerEncoderSettings
from regard.settings import Settings

BATCH = sentences(7, 3, 5)


def orders() -> torch.Tensor:
    """A random order of each sentence's own entries; padding stays behind."""
    assert BATCH.keep is not None
    chance = torch.rand(BATCH.data.shape).masked_fill(~BATCH.keep, 2)
    return chance.argsort(dim=1, stable=True)


def encoders(positions: bool) -> list[Settings]:
    some = variants(TransformerEncoderSettings)
    kinds = ("sinusoidal", "learned") if positions else ("none",)
    return [s.with_values(positions=kinds[i % len(kinds)], window=None) for i, s in enumerate(some)]


@torch.no_grad()
@pytest.mark.parametrize("decoder", [s for kind in DECODERS for s in variants(kind, 1)], ids=lambda s: s.kind)
@pytest.mark.parametrize("positions", [False, True])
def test_reordered_input_gives_the_same_outputs_reordered_unless_there_are_positions(
    positions: bool, decoder: Settings
) -> None:
    order = orders()
    assert not torch.equal(order, torch.arange(7).expand(3, 7))
    for encoder in encoders(positions):
        model = make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))
        shuffled = Batch(BATCH.data.gather(1, order), BATCH.keep)
        plain, moved = model.encoder(BATCH), model.encoder(shuffled)
        assert BATCH.keep is not None
        wanted = plain.outputs.gather(1, order[:, :, None].expand_as(plain.outputs))[BATCH.keep]
        found = moved.outputs[BATCH.keep]
        assert torch.allclose(found, wanted, rtol=0, atol=1e-4) != positions
        assert torch.allclose(moved.summary, plain.summary, rtol=0, atol=1e-4) != positions
        target = targets(3, 4)
        same = torch.allclose(model(shuffled, target), model(BATCH, target), rtol=0, atol=1e-4)
        assert same != positions, "what is decoded does not depend on the order of what is read"
