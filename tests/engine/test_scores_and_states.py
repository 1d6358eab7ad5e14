"""Scores and hidden states that the C library records while it forces a target: those of PyTorch,
for every model.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from engine.test_c_search import loaded
from engine.test_kernels import ALL, KINDS

from regard.common.errors import UsageError
from regard.common.shapes import Array
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, ModelSettings
from regard.models.recurrent import (
    NoAttentionDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
)
from regard.runtime import native
from regard.runtime.engine import c_search, pack_model
from regard.runtime.model import Options, RuntimeHypothesis, RuntimeModel
from regard.search.forced_decoding import force_decode

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

SOURCES = [
    [7, 5, 9, 4, EOS],
    [EOS],
    [6, 8, 8, EOS],
    [5, 4, 11, 9, 6, 10, 7, EOS],
]


def recorded(model: RuntimeModel, **options: Any) -> list[list[RuntimeHypothesis]]:
    """Translate the sources by a model in memory; return all hypotheses of each with what is
    recorded of them.
    """
    values: Options = model.options()
    defaults = {"beam": 3, "nbest": 2, "min_length": 1, "attention": 2}
    for name, value in (defaults | options).items():
        setattr(values, name, value)
    return [list(line.hypotheses) for line in model.translate(SOURCES, values)]


def opened(
    settings: ModelSettings, precision: Any = "float32"
) -> tuple[Any, RuntimeModel]:
    folder = loaded(settings, {"max_extra": 5, "max_ratio": 1.0})
    return folder.model, c_search.LibraryModel(
        folder, pack_model(folder.model, precision)
    )._model


class States(NamedTuple):
    """States of a model for one source and target, by PyTorch; None of a side that is not
    recurrent.
    """

    encoder: Array | None
    decoder: Array
    initial: Array | None  # the decoder's first


@torch.inference_mode()
def expected_states(model: Any, source: list[int], target: tuple[int, ...]) -> States:
    """Step a model over a target; the features stand for states of a decoder that has none."""
    encoded = model.encoder(Batch.of([source]))
    memory = model.decoder.prepare(encoded)
    state = model.begin(memory)
    is_recurrent = isinstance(model.decoder, NoAttentionDecoder | RecurrentDecoder)
    steps = []
    if is_recurrent:
        top = len(model.decoder.cells) - 1
        steps.append(state.tensors["states"][0, top])

    for token in (BOS, *target):
        features, state = model.step(torch.tensor([[token]]), state, memory)
        steps.append(
            state.tensors["states"][0, top] if is_recurrent else features[0, 0]
        )

    outputs = None
    if isinstance(model.encoder, RecurrentEncoder):
        directions = 2 if model.encoder.layers[0].bidirectional else 1
        outputs = encoded.outputs[0].view(len(source), directions, -1).numpy()

    initial = steps.pop(0).numpy() if is_recurrent else None
    return States(outputs, torch.stack(steps).numpy(), initial)


def assert_close(actual: Array | None, expected: Array | None) -> None:
    assert (actual is None) == (expected is None)
    if actual is not None and expected is not None:
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("settings", ALL)
def test_scores_and_states_are_those_of_pytorch(
    settings: ModelSettings,
) -> None:
    model, library = opened(settings)
    has_states = isinstance(model.encoder, RecurrentEncoder)
    has_decoder_states = isinstance(
        model.decoder, NoAttentionDecoder | RecurrentDecoder
    )

    assert library.recurrence == has_states + 2 * has_decoder_states

    lines = recorded(library, states=int(library.recurrence > 0))

    for source, hypotheses in zip(SOURCES, lines, strict=True):
        for hypothesis in hypotheses:
            (forced,) = force_decode(model, [source], [hypothesis.ids])

            assert (
                hypothesis.scores.keys()
                == hypothesis.weights.keys()
                == forced.scores.keys()
            )

            for name, scores in forced.scores.items():
                assert_close(hypothesis.scores[name], scores)
                assert_close(hypothesis.weights[name], forced.weights[name])

            if not library.recurrence:
                assert hypothesis.states is None
                continue

            assert hypothesis.states is not None

            expected = expected_states(model, source, hypothesis.ids)
            for name in expected._fields:
                assert_close(getattr(hypothesis.states, name), getattr(expected, name))
            attends_first = getattr(model.decoder, "order", "") == "bahdanau"

            assert hypothesis.states.attends_first == attends_first


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
@pytest.mark.parametrize("settings", KINDS)
def test_weights_are_the_softmax_of_scores(
    settings: ModelSettings, precision: str
) -> None:
    _, library = opened(settings, precision)
    for hypothesis in itertools.chain(*recorded(library)):
        for name, scores in hypothesis.scores.items():
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)

            assert_close(hypothesis.weights[name], shares)


@pytest.mark.parametrize("settings", KINDS)
def test_what_is_not_asked_for_is_not_recorded(settings: ModelSettings) -> None:
    _, library = opened(settings)
    states = int(library.recurrence > 0)
    cross = {layer.name for layer in library.layers if layer.role == "cross"}
    full = recorded(library, states=states)
    if not states:
        message = "neither the encoder nor the decoder .* is recurrent"
        with pytest.raises(UsageError, match=message):
            recorded(library, states=1)

    for options in (
        {"attention": 0},
        {"attention": 1},
        {"attention": 0, "states": states},
    ):
        layers = cross if options["attention"] else set()
        hypotheses = itertools.chain(*recorded(library, **options))

        for one, other in zip(hypotheses, itertools.chain(*full), strict=True):
            assert one.ids == other.ids
            assert one.score == other.score, "recording changes nothing"
            assert {*one.scores} == {*one.weights} == layers
            assert (one.states is not None) == bool(options.get("states"))
