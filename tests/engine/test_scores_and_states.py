"""Scores and hidden states that the C library records while it forces a target: those of PyTorch,
for every model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from engine.test_c_search import loaded
from engine.test_kernels import ALL, KINDS

from regard.common.errors import UsageError
from regard.common.shapes import Array
from regard.data.vocabulary import BOS, EOS
from regard.models import Batch, ModelSettings
from regard.models.recurrent import NoAttentionDecoder, RecurrentDecoder, RecurrentEncoder
from regard.runtime import native
from regard.runtime.engine import c_search, pack_model
from regard.runtime.model import Options, RuntimeHypothesis, RuntimeModel
from regard.search.forced_decoding import force_decode

if (problem := native.why_unavailable()) is not None:
    pytest.skip(f"no C library on this machine: {problem}", allow_module_level=True)

SOURCES = [[7, 5, 9, 4, EOS], [EOS], [6, 8, 8, EOS], [5, 4, 11, 9, 6, 10, 7, EOS]]
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def recorded(model: RuntimeModel, **options: Any) -> list[list[RuntimeHypothesis]]:
    """Translate the sources by a model in memory; return all hypotheses of each with what is
    recorded of them.
    """
    values: Options = model.options()
    for name, value in ({"beam": 3, "nbest": 2, "min_length": 1, "attention": 2} | options).items():
        setattr(values, name, value)
    return [list(line.hypotheses) for line in model.translate(SOURCES, values)]


def opened(settings: ModelSettings, precision: Any = "float32") -> tuple[Any, RuntimeModel]:
    folder = loaded(settings, {"max_extra": 5, "max_ratio": 1.0})
    return folder.model, c_search.LibraryModel(folder, pack_model(folder.model, precision))._model


@torch.inference_mode()
def expected_states(
    model: Any, source: list[int], target: tuple[int, ...]
) -> tuple[Array | None, Array, Array | None]:
    """Step a model over a target; return the states of its encoder, of its decoder, and the
    decoder's first.

    None of a side that is not recurrent, but for the decoder's features.
    """
    encoded = model.encoder(Batch.of([source]))
    decoder = model.decoder
    memory = decoder.prepare(encoded)
    state = model.begin(memory)
    steps = []
    initial = (
        state.tensors["states"][0, len(decoder.cells) - 1].numpy()
        if "states" in state.tensors
        else None
    )
    for token in (BOS, *target):
        features, state = model.step(torch.tensor([[token]]), state, memory)
        is_recurrent = isinstance(decoder, NoAttentionDecoder | RecurrentDecoder)
        steps.append(
            state.tensors["states"][0, len(decoder.cells) - 1] if is_recurrent else features[0, 0]
        )
    directions = (
        2
        if isinstance(model.encoder, RecurrentEncoder) and model.encoder.layers[0].bidirectional
        else 1
    )
    outputs = encoded.outputs[0].view(len(source), directions, -1).numpy()
    return (
        outputs if isinstance(model.encoder, RecurrentEncoder) else None,
        torch.stack(steps).numpy(),
        initial,
    )


@pytest.mark.parametrize("settings", ALL)
def test_scores_and_states_are_those_of_pytorch(settings: ModelSettings) -> None:
    model, library = opened(settings)
    sides = (
        isinstance(model.encoder, RecurrentEncoder),
        isinstance(model.decoder, NoAttentionDecoder | RecurrentDecoder),
    )
    assert library.recurrence == sides[0] + 2 * sides[1]
    for source, hypotheses in zip(SOURCES, recorded(library, states=int(any(sides))), strict=True):
        for hypothesis in hypotheses:
            (forced,) = force_decode(model, [source], [hypothesis.ids])
            assert hypothesis.scores.keys() == hypothesis.weights.keys() == forced.scores.keys()
            for name, scores in forced.scores.items():
                np.testing.assert_allclose(hypothesis.scores[name], scores, err_msg=name, **CLOSE)
                np.testing.assert_allclose(
                    hypothesis.weights[name], forced.weights[name], err_msg=name, **CLOSE
                )
            if not any(sides):
                assert hypothesis.states is None
                continue
            assert hypothesis.states is not None
            encoder, decoder, initial = expected_states(model, source, hypothesis.ids)
            assert (hypothesis.states.encoder is None) == (encoder is None)
            if encoder is not None:
                np.testing.assert_allclose(hypothesis.states.encoder, encoder, **CLOSE)
            np.testing.assert_allclose(hypothesis.states.decoder, decoder, **CLOSE)
            assert (hypothesis.states.initial is None) == (initial is None)
            if initial is not None:
                np.testing.assert_allclose(hypothesis.states.initial, initial, **CLOSE)
            assert hypothesis.states.attends_first == (
                getattr(model.decoder, "order", "") == "bahdanau"
            )


@pytest.mark.parametrize("precision", ["int8", "bfloat16"])
@pytest.mark.parametrize("settings", KINDS)
def test_weights_are_the_softmax_of_scores(settings: ModelSettings, precision: str) -> None:
    _, library = opened(settings, precision)
    for hypotheses in recorded(library):
        for hypothesis in hypotheses:
            for name, scores in hypothesis.scores.items():
                shares = np.exp(scores - scores.max(-1, keepdims=True))
                shares /= shares.sum(-1, keepdims=True)
                np.testing.assert_allclose(
                    hypothesis.weights[name], shares, err_msg=name, rtol=0, atol=1e-5
                )


@pytest.mark.parametrize("settings", KINDS)
def test_what_is_not_asked_for_is_not_recorded(settings: ModelSettings) -> None:
    _, library = opened(settings)
    full = recorded(library, states=int(library.recurrence > 0))
    for options in (
        {"attention": 0},
        {"attention": 1},
        {"attention": 0, "states": int(library.recurrence > 0)},
    ):
        for hypotheses, others in zip(recorded(library, **options), full, strict=True):
            for one, other in zip(hypotheses, others, strict=True):
                assert (one.ids, one.score) == (other.ids, other.score), "recording changes nothing"
                cross = (
                    {layer.name for layer in library.layers if layer.role == "cross"}
                    if options["attention"]
                    else set()
                )
                assert one.scores.keys() == one.weights.keys() == cross
                assert (one.states is not None) == bool(options.get("states"))
                if one.states is not None and other.states is not None:
                    np.testing.assert_array_equal(one.states.decoder, other.states.decoder)


@pytest.mark.parametrize("settings", KINDS)
def test_states_of_a_model_without_them_are_refused(settings: ModelSettings) -> None:
    _, library = opened(settings)
    if library.recurrence:
        assert recorded(library, states=1)[0][0].states is not None
        return
    with pytest.raises(
        UsageError, match="neither the encoder nor the decoder of this model is recurrent"
    ):
        recorded(library, states=1)
