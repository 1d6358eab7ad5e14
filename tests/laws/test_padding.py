"""Padding gets nothing: no gradient from the loss, and no influence even if it is not a number."""

from typing import Any

import pytest
import torch

from laws.models import (
    data_keep,
    kinds,
    make,
    pairs,
    sources,
    targets,
)
from regard.models import ModelSettings


@pytest.mark.parametrize("settings", kinds())
def test_masked_encoder_outputs_change_nothing_even_if_they_are_nan(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = sources(settings, 7, 2, 5, 1)
    target = targets(4, 5)
    encoded = model.encoder(batch)

    assert not bool(encoded.keep.all())

    features = []

    for _ in range(2):
        source = model.decoder.prepare(encoded)
        features.append(model.step(target, model.begin(source), source)[0])
        encoded.outputs.data.masked_fill_(~encoded.keep[:, :, None], float("nan"))

    assert torch.equal(*features)


@pytest.mark.parametrize("settings", pairs())
def test_padding_gets_no_gradient_and_every_source_does(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = sources(settings, 6, 2, 4)
    keep = data_keep(batch)
    inputs = [batch.data]

    if settings.encoder.reads == "images":
        batch.data.requires_grad_()
    else:

        def note_embedded(*hooked: Any) -> None:
            inputs[0] = hooked[-1]

        model.encoder.embedding.register_forward_hook(note_embedded)
        keep = keep[:, :, None]

    features = model(batch, targets(3, 5))
    loss = (features * torch.randn_like(features)).sum()
    (gradient,) = torch.autograd.grad(loss, inputs)

    assert bool(gradient.isfinite().all())
    assert float(gradient.masked_fill(keep, 0).abs().max()) == 0

    if settings.encoder.reads == "images":
        assert bool((gradient.abs().amax((1, 2, 3)) > 0).all())
    else:
        assert torch.equal(gradient.abs().amax(2, keepdim=True) > 0, keep)
