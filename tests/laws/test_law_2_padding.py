"""Law 2 for whole models: padding changes nothing, whatever values it holds."""

import pytest
import torch

from laws.models import (
    alone,
    data_keep,
    entries,
    kinds,
    make,
    pairs,
    sentences,
    sources,
    targets,
    with_noise_in_padding,
)
from regard.data.vocabulary import PAD
from regard.models import ModelSettings


@pytest.mark.parametrize("settings", pairs())
def test_values_in_the_padding_change_nothing(settings: ModelSettings) -> None:
    model = make(settings)
    batch = sources(settings, 7, 2, 5, 1)
    target = targets(4, 5)
    noisy = with_noise_in_padding(batch)
    assert not torch.equal(noisy.data, batch.data)
    encoded = model.encoder(batch)
    noisy_encoded = model.encoder(noisy)
    torch.testing.assert_close(
        encoded.outputs[encoded.keep], noisy_encoded.outputs[encoded.keep], rtol=0, atol=1e-5
    )
    torch.testing.assert_close(encoded.summary, noisy_encoded.summary, rtol=0, atol=1e-5)
    torch.testing.assert_close(model(batch, target), model(noisy, target), rtol=0, atol=1e-5)


@pytest.mark.parametrize("settings", kinds())
def test_masked_encoder_outputs_change_nothing_even_if_they_are_nan(
    settings: ModelSettings,
) -> None:
    model = make(settings)
    batch = sources(settings, 7, 2, 5, 1)
    target = targets(4, 5)
    encoded = model.encoder(batch)
    assert not bool(encoded.keep.all())
    expected, _ = model.step(target, *reversed(_begin(model, encoded)))
    encoded.outputs.data.masked_fill_(~encoded.keep[:, :, None], float("nan"))
    actual, _ = model.step(target, *reversed(_begin(model, encoded)))
    assert torch.equal(actual, expected)


def _begin(model, encoded):  # type: ignore[no-untyped-def]
    source = model.decoder.prepare(encoded)
    return source, model.begin(source)


@pytest.mark.parametrize("settings", pairs(reads=["text"]))
def test_padding_gets_no_gradient_and_every_token_does(settings: ModelSettings) -> None:
    model = make(settings)
    target = targets(3, 5)
    batch = sentences(6, 2, 4)
    features = model(batch, target)
    (features * torch.randn_like(features)).sum().backward()
    gradient = model.encoder.embedding.weight.grad
    assert gradient is not None
    assert bool(gradient.isfinite().all())
    assert float(gradient[PAD].abs().max()) == 0
    tokens = {token for row in range(3) for token in alone(batch, row).data[0].tolist()}
    assert all(float(gradient[token].abs().max()) > 0 for token in tokens)


@pytest.mark.parametrize("settings", pairs(reads=["images"]))
def test_padding_gets_no_gradient_and_every_image_does(settings: ModelSettings) -> None:
    model = make(settings)
    target = targets(3, 5)
    batch = sources(settings, 6, 2, 4)
    pixels = batch.data.requires_grad_()
    features = model(batch, target)
    (gradient,) = torch.autograd.grad((features * torch.randn_like(features)).sum(), pixels)
    assert bool(gradient.isfinite().all())
    assert float(gradient.masked_fill(data_keep(batch), 0).abs().max()) == 0
    assert bool((gradient.abs().amax((1, 2, 3)) > 0).all())


@pytest.mark.parametrize("settings", kinds())
def test_later_target_tokens_change_no_earlier_output(settings: ModelSettings) -> None:
    model = make(settings)
    batch = sources(settings, 6, 2, 4)
    first = targets(3, 6)
    second = targets(3, 6, seed=9)
    second[:, :4] = first[:, :4]
    torch.testing.assert_close(
        model(batch, first)[:, :4], model(batch, second)[:, :4], rtol=0, atol=1e-5
    )
    assert not torch.allclose(model(batch, first)[:, 4:], model(batch, second)[:, 4:], atol=1e-2)


def test_sentences_have_the_given_lengths() -> None:
    assert entries(sentences(7, 2, 5, 1)) == [7, 2, 5, 1]
