"""Law 10: without positions, reordered input gives the same outputs reordered; with them it does
not.
"""

from __future__ import annotations

import pytest
import torch
from broad import broad

from laws.covering import parse
from laws.models import make, sentences, targets, variants
from regard.common.settings import Settings
from regard.models import DECODERS, Batch, ModelSettings
from regard.models.transformer import TransformerEncoderSettings
from regard.models.vision import ViTEncoderSettings

BATCH = sentences(7, 3, 5)


def orders() -> torch.Tensor:
    """Return a random order of each sentence's own entries; padding stays at the end."""
    assert BATCH.keep is not None
    sort_keys = torch.rand(BATCH.data.shape).masked_fill(~BATCH.keep, 2)
    return sort_keys.argsort(dim=1, stable=True)


def encoders(positions: bool) -> list[Settings]:
    settings = variants(TransformerEncoderSettings)
    kinds = ("sinusoidal", "learned") if positions else ("none",)
    return [
        s.with_values(positions=kinds[i % len(kinds)], window=None) for i, s in enumerate(settings)
    ]


@torch.no_grad()
@pytest.mark.parametrize(
    "decoder", broad(parse(kind, {}) for kind in DECODERS), ids=lambda s: s.kind
)
@pytest.mark.parametrize("positions", [False, True])
def test_reordered_input_gives_the_same_outputs_reordered_unless_there_are_positions(
    positions: bool, decoder: Settings
) -> None:
    order = orders()
    assert not torch.equal(order, torch.arange(7).expand(3, 7))
    for encoder in encoders(positions):
        model = make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))
        shuffled = Batch(BATCH.data.gather(1, order), BATCH.keep)
        plain = model.encoder(BATCH)
        reordered = model.encoder(shuffled)
        assert BATCH.keep is not None
        expected = plain.outputs.gather(1, order[:, :, None].expand_as(plain.outputs))[BATCH.keep]
        actual = reordered.outputs[BATCH.keep]
        assert torch.allclose(actual, expected, rtol=0, atol=1e-4) != positions
        assert torch.allclose(reordered.summary, plain.summary, rtol=0, atol=1e-4) != positions
        target = targets(3, 4)
        same = torch.allclose(model(shuffled, target), model(BATCH, target), rtol=0, atol=1e-4)
        assert same != positions, "decoding does not depend on the order of the source"


@torch.no_grad()
@pytest.mark.parametrize("decoder", [parse(kind, {}) for kind in DECODERS], ids=lambda s: s.kind)
@pytest.mark.parametrize("positions", ["none", "sinusoidal", "learned"])
def test_reordered_patches_give_the_same_outputs_reordered_unless_there_are_positions(
    positions: str, decoder: Settings
) -> None:
    encoder = ViTEncoderSettings(
        patch_size=4, layers=2, heads=2, size=16, feedforward=24, dropout=0.0, positions=positions
    )
    model = make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))
    patches = torch.rand(3, 6, 3, 4, 4)
    order = torch.stack([torch.randperm(6) for _ in range(3)])

    def image(patches: torch.Tensor) -> Batch:
        """Return images of six patches each, in two rows of three."""
        return Batch(patches.view(3, 2, 3, 3, 4, 4).permute(0, 3, 1, 4, 2, 5).reshape(3, 3, 8, 12))

    plain = image(patches)
    shuffled = image(patches.gather(1, order[:, :, None, None, None].expand_as(patches)))
    original = model.encoder(plain)
    reordered = model.encoder(shuffled)
    expected = original.outputs.gather(1, order[:, :, None].expand_as(original.outputs))
    assert original.grid == reordered.grid == (2, 3)
    assert torch.allclose(reordered.outputs, expected, rtol=0, atol=1e-4) == (positions == "none")
    assert torch.allclose(reordered.summary, original.summary, rtol=0, atol=1e-4) == (
        positions == "none"
    )
    target = targets(3, 4)
    same = torch.allclose(model(shuffled, target), model(plain, target), rtol=0, atol=1e-4)
    assert same == (positions == "none"), "decoding does not depend on the order of the source"
