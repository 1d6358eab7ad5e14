"""Without positions, reordered input gives the same outputs reordered; with them it does not."""

from __future__ import annotations

import pytest
import torch

from laws.covering import parse
from laws.models import WHOLE, make, sentences, targets, variants
from regard.common.settings import Settings
from regard.models import Batch, ModelSettings
from regard.models.recurrent import RecurrentDecoderSettings
from regard.models.transformer import TransformerEncoderSettings
from regard.models.vision import ViTEncoderSettings


def check(
    encoder: Settings,
    plain: Batch,
    shuffled: Batch,
    order: torch.Tensor,
) -> None:
    """Check the law for sources and the same with their entries in another order."""
    has_positions = encoder.positions != "none"  # type: ignore[attr-defined]
    decoder = parse(RecurrentDecoderSettings, {})
    model = make(ModelSettings(encoder=encoder, decoder=decoder, share="none"))
    target = targets(len(order), 4)
    original = model.encoder(plain)
    reordered = model.encoder(shuffled)

    assert original.grid == reordered.grid

    outputs = original.outputs.gather(1, order[:, :, None].expand_as(original.outputs))
    keep = ... if plain.keep is None else plain.keep

    for actual, expected in (
        (reordered.outputs[keep], outputs[keep]),
        (reordered.summary, original.summary),
        (model(shuffled, target), model(plain, target)),
    ):
        assert torch.allclose(actual, expected, rtol=0, atol=1e-4) != has_positions


@torch.no_grad()
@pytest.mark.parametrize("positions", ["none", "sinusoidal", "learned"])
def test_reordered_tokens_give_the_same_outputs_reordered_unless_there_are_positions(
    positions: str,
) -> None:
    batch = sentences(7, 3, 5)

    assert batch.keep is not None

    # A random order of each sentence's own entries; padding stays at the end.
    draws = torch.rand(batch.data.shape).masked_fill(~batch.keep, 2)
    order = draws.argsort(dim=1, stable=True)
    shuffled = Batch(batch.data.gather(1, order), batch.keep)
    encoders = variants(TransformerEncoderSettings)

    for encoder in encoders if WHOLE else encoders[::3]:
        encoder = encoder.with_values(positions=positions, window=None)
        check(encoder, batch, shuffled, order)


@torch.no_grad()
@pytest.mark.parametrize("positions", ["none", "sinusoidal", "learned"])
def test_reordered_patches_give_the_same_outputs_reordered_unless_there_are_positions(
    positions: str,
) -> None:
    encoder = parse(ViTEncoderSettings, {"positions": positions})
    patches = torch.rand(3, 6, 3, 4, 4)
    order = torch.stack([torch.randperm(6) for _ in range(3)])
    reordered = torch.stack([patches[row, order[row]] for row in range(3)])

    def image(patches: torch.Tensor) -> Batch:
        """Return images of six patches each, in two rows of three."""
        rows = patches.view(3, 2, 3, 3, 4, 4)
        return Batch(rows.permute(0, 3, 1, 4, 2, 5).reshape(3, 3, 8, 12))

    check(encoder, image(patches), image(reordered), order)
