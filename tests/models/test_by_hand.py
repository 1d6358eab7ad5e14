"""Three steps of recurrent decoders with vectors of size 1, calculated by hand.

The source is 1 and 2; the tokens 0, 1 and 2 are embedded as 1, −1 and 0.5; scores are products of
state and source.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from regard.attention import watch
from regard.models import Encoded, EncoderSizes
from regard.models.recurrent import (
    NoAttentionDecoder,
    NoAttentionDecoderSettings,
    RecurrentDecoder,
    RecurrentDecoderSettings,
)

ONE: dict[str, Any] = {"cell": "tanh", "size": 1, "embedding": 1, "dropout": 0.0}
SOURCE = torch.tensor([[[1.0], [2.0]]])

# (h, weight of the first entry, context, feature) after each of three steps
EXPECTED = {
    # c from the previous state: softmax(0·1, 0·2) = ½, ½, so c = 1.5 h = tanh(y + ½h − c): tanh(1 +
    # 0 − 1.5), tanh(−1 − 0.2311 − 1.3865), tanh(0.5 − 0.4947 − 1.2710) feature = tanh(h + ½c − y):
    # tanh(−0.4621 + 0.75 − 1), tanh(−0.9894 + 0.6933 + 1), tanh(−0.8526 + 0.6355 − 0.5)
    "bahdanau": [
        (-0.4621, 0.5000, 1.5000, -0.6120),
        (-0.9894, 0.6135, 1.3865, 0.6068),
        (-0.8526, 0.7290, 1.2710, -0.6151),
    ],
    # h = tanh(y + ½h): tanh(1), tanh(−1 + 0.3808), tanh(0.5 − 0.2753); then softmax(h, 2h), and
    # feature = tanh(h + ½c)
    "luong": [
        (0.7616, 0.3183, 1.6817, 0.9220),
        (-0.5506, 0.6343, 1.3657, 0.1315),
        (0.2210, 0.4450, 1.5550, 0.7610),
    ],
    # h = tanh(y + ½h − previous feature): tanh(1), tanh(−1 + 0.3808 − 0.9220), tanh(0.5 − 0.4561 +
    # 0.2628)
    "luong_input_feeding": [
        (0.7616, 0.3183, 1.6817, 0.9220),
        (-0.9123, 0.7135, 1.2865, -0.2628),
        (0.2973, 0.4262, 1.5738, 0.7948),
    ],
}
READOUT = {"bahdanau": [1.0, 0.5, -1.0], "luong": [1.0, 0.5], "luong_input_feeding": [1.0, 0.5]}


def set_to(layer: nn.Module, weight: list[list[float]]) -> None:
    layer.weight = nn.Parameter(torch.tensor(weight))
    if getattr(layer, "bias", None) is not None:
        nn.init.zeros_(layer.bias)


def set_common(
    decoder: RecurrentDecoder | NoAttentionDecoder, inputs: list[float], readout: list[float]
) -> None:
    set_to(decoder.embedding, [[1.0], [-1.0], [0.5]])
    set_to(decoder.cells[0].input, [inputs])
    set_to(decoder.cells[0].hidden, [[0.5]])
    set_to(decoder.readout, [readout])


@torch.no_grad()
@pytest.mark.parametrize("order", EXPECTED)
def test_three_steps_with_attention_equal_the_calculation(order: str) -> None:
    decoder = RecurrentDecoder(
        RecurrentDecoderSettings(order=order, score="dot", attention_size=1, **ONE),
        3,
        EncoderSizes(1, 1, 1),
    )
    set_common(decoder, [1.0], READOUT[order])
    for layer in (decoder.cross_attention.query, decoder.cross_attention.key):
        set_to(layer, [[1.0]])
    if order != "luong":
        set_to(decoder.context_proj, [[-1.0]])
    nn.init.zeros_(decoder.bridges[0].bias)
    source = decoder.prepare(Encoded(SOURCE, SOURCE, torch.zeros(1, 1, 1)))
    state = decoder.begin(source)
    for token, (h, weight, _, feature) in enumerate(EXPECTED[order]):
        with watch(decoder) as readings:
            features, state = decoder.step(torch.tensor([[token]]), state, source)
        assert state.tensors["states"].item() == pytest.approx(h, abs=1e-4)
        assert readings["cross_attention"].flatten().tolist() == pytest.approx(
            [weight, 1 - weight], abs=1e-4
        )
        assert features.item() == pytest.approx(feature, abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("context", ["first", "every"])
def test_three_steps_without_attention_equal_the_calculation(context: str) -> None:
    """The last state 0.5 becomes tanh(2 · 0.5) = 0.7616: the first state, and the context of every
    step.
    """
    decoder = NoAttentionDecoder(
        NoAttentionDecoderSettings(context=context, **ONE), 3, EncoderSizes(1, 1, 1)
    )
    every = context == "every"
    set_common(decoder, [1.0, -1.0] if every else [1.0], [1.0, -1.0, 0.5] if every else [2.0])
    set_to(decoder.bridges[0], [[2.0]])
    source = decoder.prepare(Encoded(SOURCE, SOURCE, torch.full((1, 1, 1), 0.5)))
    features, state = decoder.step(torch.tensor([[0, 1, 2]]), decoder.begin(source), source)
    if every:
        # h = tanh(y + ½h − 0.7616): tanh(1 + 0.3808 − 0.7616), tanh(−1 + 0.2753 − 0.7616), tanh(0.5
        # − 0.4513 − 0.7616) feature = tanh(h − y + ½ · 0.7616): tanh(0.5506 − 1 + 0.3808),
        # tanh(−0.9026 + 1 + 0.3808), tanh(−0.6125 − 0.5 + 0.3808)
        h = -0.6125
        expected = [-0.0685, 0.4448, -0.6241]
    else:
        # h = tanh(y + ½h): tanh(1 + 0.3808), tanh(−1 + 0.4405), tanh(0.5 − 0.2538); feature =
        # tanh(2h)
        h = 0.2414
        expected = [0.9428, -0.7679, 0.4484]
    assert state.tensors["states"].item() == pytest.approx(h, abs=1e-4)
    assert features.flatten().tolist() == pytest.approx(expected, abs=1e-4)
