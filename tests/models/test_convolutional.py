"""Convolutional model of Gehring et al. 2017 against PyTorch's convolutions and weight norm, and
against loops.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from laws.models import alone, entries, make, sentences, targets, variants
from torch import Tensor, nn

from regard.layers.convolution import GatedConvolution, WeightNormLinear
from regard.models import ModelSettings
from regard.models.convolutional import (
    ConvolutionalDecoder,
    ConvolutionalDecoderSettings,
    ConvolutionalEncoder,
    ConvolutionalEncoderSettings,
)
from regard.models.recurrent import RecurrentEncoderSettings

SIZES: dict[str, Any] = {"size": 6, "embedding": 5, "dropout": 0.0, "max_positions": 12}
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-4}
SQRT_HALF = math.sqrt(0.5)


def settings(encoder: Any = None, **values: Any) -> ModelSettings:
    encoder = encoder or ConvolutionalEncoderSettings(**SIZES, **values)
    decoder = ConvolutionalDecoderSettings(**SIZES, **values)
    return ModelSettings(encoder=encoder, decoder=decoder, share="none")


def convolved(layer: GatedConvolution, x: Tensor, before: int, after: int) -> Tensor:
    """Apply PyTorch's own convolution over one sentence (S, D), and the gate."""
    D = x.shape[1]
    kernel = layer.linear.weight.view(2 * D, layer.kernel_size, D).transpose(1, 2)
    padded = F.pad(x.t(), (before, after))[None]
    return F.glu(F.conv1d(padded, kernel, layer.linear.bias), 1)[0].t()


def test_weight_norm_equals_that_of_torch() -> None:
    actual = WeightNormLinear(5, 7)
    expected = nn.utils.parametrizations.weight_norm(nn.Linear(5, 7))

    with torch.no_grad():
        actual.length.mul_(1.5)
        expected.parametrizations.weight.original0.copy_(actual.length[:, None])
        expected.parametrizations.weight.original1.copy_(actual.direction)
        expected.bias.copy_(actual.bias.normal_())

    x = torch.randn(2, 3, 5)

    torch.testing.assert_close(actual(x), expected(x), rtol=0, atol=1e-5)


def test_layers_preserve_the_standard_deviation() -> None:
    x = torch.randn(4, 50, 256)
    y = GatedConvolution(256, 3, 0.0)(F.pad(x, (0, 0, 1, 1)))

    assert ((y + x) * SQRT_HALF).std().item() == pytest.approx(1, abs=0.15)
    assert WeightNormLinear(256, 300)(x).std().item() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(("layers", "width"), [(1, 1), (3, 2)])
def test_the_encoder_equals_torch_convolutions_over_each_sentence_alone(
    layers: int, width: int
) -> None:
    encoder = make(settings(layers=layers, kernel_size=width)).encoder

    assert isinstance(encoder, ConvolutionalEncoder)

    batch = sentences(7, 1, 4)
    encoded = encoder(batch)

    for row, S in enumerate(entries(batch)):
        embedded = encoder.embedding.weight[batch.data[row, :S]]
        embedded = embedded + encoder.input_embedding.position_embedding.weight[:S]
        x = embedded @ encoder.widen.weight.T + encoder.widen.bias
        for layer in encoder.layers:
            x = (convolved(layer, x, (width - 1) // 2, width // 2) + x) * SQRT_HALF
        expected = x @ encoder.narrow.weight.T + encoder.narrow.bias
        torch.testing.assert_close(encoded.outputs[row, :S], expected, **CLOSE)
        torch.testing.assert_close(encoded.embedded[row, :S], embedded, **CLOSE)
        assert not encoded.outputs[row, S:].any()


def attend_by_loop(
    layer: Any, y: Tensor, embedded: Tensor, keys: Tensor, values: Tensor
) -> Tensor:
    """Return the context of each position, computed for one position at a time."""
    contexts = []

    for position, own_embedding in zip(y, embedded, strict=True):
        query = layer.query_in.weight @ position + layer.query_in.bias
        weights = (keys @ ((query + own_embedding) * SQRT_HALF)).softmax(0)
        context = weights @ values * math.sqrt(len(keys))
        contexts.append(layer.context_out.weight @ context + layer.context_out.bias)

    return torch.stack(contexts)


@pytest.mark.parametrize(
    ("encoder", "layers", "width"),
    [(None, 3, 3), (variants(RecurrentEncoderSettings)[0], 1, 4)],
    ids=["convolutional", "recurrent"],
)
def test_the_decoder_equals_torch_convolutions_and_a_loop_over_positions(
    encoder: Any, layers: int, width: int
) -> None:
    model = make(settings(encoder, layers=layers, kernel_size=width))
    batch = sentences(6, 1, 3)
    target = targets(3, 7)
    decoder = model.decoder

    assert isinstance(decoder, ConvolutionalDecoder)

    outputs = model(batch, target)

    for row in range(3):
        encoded = model.encoder(alone(batch, row))
        keys = encoded.outputs[0]
        values = (keys + decoder.fit_source(encoded.embedded)[0]) * SQRT_HALF
        embedded = decoder.embedding.weight[target[row]]
        embedded = embedded + decoder.input_embedding.position_embedding.weight[:7]
        query_embedding = decoder.fit_target(embedded[None])[0]
        x = decoder.widen(embedded[None])[0]
        for layer in decoder.layers:
            y = convolved(layer.convolution, x, width - 1, 0)
            context = attend_by_loop(layer, y, query_embedding, keys, values)
            x = ((y + context) * SQRT_HALF + x) * SQRT_HALF
        torch.testing.assert_close(outputs[row], decoder.narrow(x[None])[0], **CLOSE)


@torch.no_grad()
def test_max_positions_limits_targets_and_not_sources() -> None:
    model = make(settings(layers=1))

    assert model.max_target == 12
    assert bool(model(sentences(30, 4), targets(2, 20)).isfinite().all())
