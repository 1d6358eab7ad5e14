"""Padding gets nothing: no gradient from the loss, and no influence even if it is not a number."""

import pytest
import torch

from laws.models import (
    alone,
    data_keep,
    kinds,
    make,
    pairs,
    sentences,
    sources,
    targets,
)
from regard.data.vocabulary import PAD
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


@pytest.mark.parametrize("settings", pairs(reads=["text"]))
def test_padding_gets_no_gradient_and_every_token_does(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = sentences(6, 2, 4)
    features = model(batch, targets(3, 5))
    (features * torch.randn_like(features)).sum().backward()
    gradient = model.encoder.embedding.weight.grad

    assert gradient is not None
    assert bool(gradient.isfinite().all())
    assert float(gradient[PAD].abs().max()) == 0

    for row in range(3):
        tokens = alone(batch, row).data[0]
        assert bool((gradient[tokens].abs().amax(1) > 0).all())


@pytest.mark.parametrize("settings", pairs(reads=["images"]))
def test_padding_gets_no_gradient_and_every_image_does(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = sources(settings, 6, 2, 4)
    pixels = batch.data.requires_grad_()
    features = model(batch, targets(3, 5))
    (gradient,) = torch.autograd.grad(
        (features * torch.randn_like(features)).sum(), pixels
    )

    assert bool(gradient.isfinite().all())
    assert float(gradient.masked_fill(data_keep(batch), 0).abs().max()) == 0
    assert bool((gradient.abs().amax((1, 2, 3)) > 0).all())
