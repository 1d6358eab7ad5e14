"""Law 2 for whole models: padding changes nothing, whatever it holds."""

import pytest
import torch

from laws.models import alone, data_keep, entries, make, pairs, sentences, sources, targets, with_noise_in_padding
from regard.data.vocabulary import PAD
from regard.models import ModelSettings


@pytest.mark.parametrize("settings", pairs())
def test_other_pieces_in_the_padding_change_nothing(settings: ModelSettings) -> None:
    model, batch, target = make(settings), sources(settings, 7, 2, 5, 1), targets(4, 5)
    other = with_noise_in_padding(batch)
    assert not torch.equal(other.data, batch.data)
    one, same = model.encoder(batch), model.encoder(other)
    torch.testing.assert_close(one.outputs[one.keep], same.outputs[one.keep], rtol=0, atol=1e-5)
    torch.testing.assert_close(one.summary, same.summary, rtol=0, atol=1e-5)
    torch.testing.assert_close(model(batch, target), model(other, target), rtol=0, atol=1e-5)


@pytest.mark.parametrize("settings", pairs(1))
def test_hidden_encoder_outputs_change_nothing_even_if_they_are_no_numbers(settings: ModelSettings) -> None:
    model, batch, target = make(settings), sources(settings, 7, 2, 5, 1), targets(4, 5)
    encoded = model.encoder(batch)
    assert not bool(encoded.keep.all())
    wanted, _ = model.step(target, *reversed(_ready(model, encoded)))
    encoded.outputs.data.masked_fill_(~encoded.keep[:, :, None], float("nan"))
    found, _ = model.step(target, *reversed(_ready(model, encoded)))
    assert torch.equal(found, wanted)


def _ready(model, encoded):  # type: ignore[no-untyped-def]
    source = model.decoder.prepare(encoded)
    return source, model.begin(source)


@pytest.mark.parametrize("settings", pairs(reads=["text"]))
def test_padding_gets_no_gradient_and_no_piece_but_the_padding_is_without(settings: ModelSettings) -> None:
    model, target = make(settings), targets(3, 5)
    batch = sentences(6, 2, 4)
    features = model(batch, target)
    (features * torch.randn_like(features)).sum().backward()
    gradient = model.encoder.embedding.weight.grad
    assert gradient is not None
    assert bool(gradient.isfinite().all())
    assert float(gradient[PAD].abs().max()) == 0
    read = {piece for row in range(3) for piece in alone(batch, row).data[0].tolist()}
    assert all(float(gradient[piece].abs().max()) > 0 for piece in read)


@pytest.mark.parametrize("settings", pairs(reads=["images"]))
def test_what_is_no_image_gets_no_gradient_and_no_image_is_without(settings: ModelSettings) -> None:
    model, target, batch = make(settings), targets(3, 5), sources(settings, 6, 2, 4)
    pixels = batch.data.requires_grad_()
    features = model(batch, target)
    (gradient,) = torch.autograd.grad((features * torch.randn_like(features)).sum(), pixels)
    assert bool(gradient.isfinite().all())
    assert float(gradient.masked_fill(data_keep(batch), 0).abs().max()) == 0
    assert bool((gradient.abs().amax((1, 2, 3)) > 0).all())


@pytest.mark.parametrize("settings", pairs(1))
def test_what_comes_later_in_the_target_changes_nothing_before(settings: ModelSettings) -> None:
    model, batch = make(settings), sources(settings, 6, 2, 4)
    one, other = targets(3, 6), targets(3, 6, seed=9)
    other[:, :4] = one[:, :4]
    torch.testing.assert_close(model(batch, one)[:, :4], model(batch, other)[:, :4], rtol=0, atol=1e-5)
    assert not torch.allclose(model(batch, one)[:, 4:], model(batch, other)[:, 4:], atol=1e-2)


def test_lengths_are_what_was_asked_for() -> None:
    assert entries(sentences(7, 2, 5, 1)) == [7, 2, 5, 1]
