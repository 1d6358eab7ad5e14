"""Explanations of one output: the states that a recurrent model is explained by, and models without
attention.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.small_models import SIDES, captioner_folder, folder, pairs
from PIL import Image

from regard.cli.model_views import draw_map
from regard.common.errors import UsageError
from regard.explain.explanation import (
    alignment_choice,
    describe_choice,
    explain,
    explain_caption,
)
from regard.explain.residuals import draw_residuals
from regard.models import Batch
from regard.models.recurrent import RecurrentEncoder
from regard.pipeline import load_captioner, load_translator
from regard.visualisation import save
from regard.visualisation.figure import Text

pytestmark = pytest.mark.system  # explains and draws models

TEXT = "나는 빵을 먹고 있었다"


@pytest.mark.parametrize(("encoder", "decoder"), pairs())
def test_every_model_is_explained_and_drawn(
    encoder: str, decoder: str, tmp_path: Path
) -> None:
    """Animated in SVG, whose frames are those of GIF without the seconds that its compression
    takes.
    """
    translator = load_translator(folder(tmp_path / "run", encoder, decoder, end=-2.0))
    data = explain(translator, TEXT, beam=2).data

    assert data.has_cross_attention == (decoder != "no_attention")
    assert (data.states is not None) == (encoder == "recurrent")
    assert (data.attributions is not None) == data.has_cross_attention

    for suffix in (".html", ".svg"):
        save(data, tmp_path / f"page{suffix}")


@pytest.mark.parametrize(
    ("decoder", "words"),
    [
        ("recurrent", "attention"),
        ("convolutional", r"layer \d"),
        ("transformer", r"layer \d, mean of heads"),
    ],
)
def test_attention_is_called_by_its_layer_and_heads_if_there_are_several(
    decoder: str, words: str, tmp_path: Path
) -> None:
    translator = load_translator(folder(tmp_path / "run", "transformer", decoder))
    readings = explain(translator, TEXT, attributions=False).translation.readings

    assert readings is not None

    caption = describe_choice(alignment_choice(translator, readings), readings)
    assert re.fullmatch(words, caption)


@pytest.mark.parametrize("decoder", ["recurrent", "transformer"])
def test_scores_are_logarithms_of_weights_plus_those_of_their_sums(
    decoder: str, tmp_path: Path
) -> None:
    translator = load_translator(
        folder(tmp_path / "run", "transformer", decoder, end=-2.0)
    )
    explanation = explain(translator, TEXT, beam=2, attributions=False)
    readings = explanation.translation.readings

    assert readings is not None

    for layer, name in zip(
        explanation.data.layers, readings.layers("cross"), strict=False
    ):
        assert layer.log_sums is not None
        ends = np.asarray(readings.source_words) < 0
        at_end = np.logaddexp.reduce(readings.scores[name][..., ends], -1)
        expected = np.log(layer.special_weights) + layer.log_sums
        likely = layer.special_weights > 1e-4
        np.testing.assert_allclose(
            expected[likely], at_end[likely], rtol=1e-4, atol=1e-3
        )

    assert all(
        layer.log_sums is None
        for layer in explanation.data.layers
        if layer.role != "cross"
    )


@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [
        ({}, "no_attention"),
        ({"bidirectional": False}, "transformer"),
        ({"cell": "lstm", "layers": 2}, "recurrent"),
    ],
)
def test_states_are_those_of_the_model(
    encoder: dict[str, Any],
    decoder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After k tokens the forward state is what an encoder of the first k hands over, the backward
    state of the last.
    """
    monkeypatch.setitem(SIDES, "variant", {**SIDES["recurrent"], **encoder})
    translator = load_translator(folder(tmp_path / "run", "variant", decoder, end=-2.0))
    model: Any = translator.model

    assert isinstance(model.encoder, RecurrentEncoder)

    explanation = explain(translator, TEXT, beam=2)
    states = explanation.data.states
    ids = translator.encode(TEXT)
    top = len(model.encoder.layers) - 1

    assert states is not None
    assert states.tokens == tuple(translator.tokenizer.source.tokens(ids))
    assert states.is_all == (decoder == "no_attention")

    def last(part: list[int]) -> np.ndarray:
        with torch.inference_mode():
            summary: torch.Tensor = model.encoder(Batch(torch.tensor([part]))).summary[
                0, top
            ]
        return summary.view(states.directions, -1).numpy()

    np.testing.assert_allclose(states.encoder[-1, 0], last(ids)[0], atol=1e-5)
    if states.directions == 2:
        np.testing.assert_allclose(states.encoder[0, 1], last(ids)[1], atol=1e-5)
    # The upper of two layers with both directions also knows the tokens that follow.
    if top == 0:
        for count in range(1, len(ids) + 1):
            np.testing.assert_allclose(
                states.encoder[count - 1, 0], last(ids[:count])[0], atol=1e-5
            )
            if states.directions == 2:
                np.testing.assert_allclose(
                    states.encoder[-count, 1], last(ids[-count:])[1], atol=1e-5
                )

    assert len(states.decoder) == len(explanation.data.tokens)
    assert (states.initial is None) == (decoder == "transformer")

    # Of which, and of the start of the target, the next is made.
    if states.initial is not None:
        with torch.inference_mode():
            begun = model.begin(model.encode(Batch.of([ids]))).tensors["states"][
                0, len(model.decoder.cells) - 1
            ]
        np.testing.assert_allclose(states.initial, begun.numpy(), atol=1e-5)


def test_a_captioner_without_attention_is_explained_by_its_search(
    tmp_path: Path,
) -> None:
    captioner = load_captioner(captioner_folder(tmp_path / "run", "no_attention"))
    image = tmp_path / "grey.png"
    Image.new("RGB", (20, 12), (120, 120, 120)).save(image)
    _, data = explain_caption(captioner, image, beam=2)

    assert not data.layers
    assert data.steps

    for suffix in (".html", ".svg"):
        save(data, tmp_path / f"page{suffix}")


@pytest.mark.filterwarnings("ignore:.*trained for an experiment")
@pytest.mark.parametrize("norm", ["pre", "post", "none"])
def test_residual_connections_are_measured_where_they_are(
    norm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What passes by first is the input of the first layer, whatever the norm; what is added is
    what attention gives.
    """
    monkeypatch.setitem(SIDES, "variant", {**SIDES["transformer"], "norm": norm})
    translator = load_translator(
        folder(tmp_path / "run", "variant", "variant", end=-2.0)
    )
    chart = draw_residuals(
        translator, TEXT, explain(translator, TEXT, beam=2, attributions=False)
    )
    encoder: Any = translator.model.encoder
    recorded = dict[str, torch.Tensor]()
    layer = encoder.layers[0]
    layer.register_forward_pre_hook(lambda _, inputs: recorded.update(x=inputs[0]))
    layer.self_attention.register_forward_hook(
        lambda *call: recorded.update(added=call[2])
    )
    with torch.inference_mode():
        encoder(Batch(torch.tensor([translator.encode(TEXT)])))
    passing, adding = (series.points[0][1] for series in chart.panels[0].series)

    assert passing == pytest.approx(float(recorded["x"].norm(dim=-1).mean()), rel=1e-4)
    assert adding == pytest.approx(
        float(recorded["added"].norm(dim=-1).mean()), rel=1e-4
    )

    layers = len(encoder.layers)
    assert [len(panel.categories) for panel in chart.panels] == [2 * layers, 3 * layers]
    assert all(
        y >= 0
        for panel in chart.panels
        for series in panel.series
        for _, y in series.points
    )

    save(chart, tmp_path / "residual.svg")


def test_the_map_of_a_score_has_every_word_of_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for order in ("luong", "bahdanau"):
        monkeypatch.setitem(
            SIDES, "variant", {**SIDES["recurrent"], "order": order, "score": "general"}
        )
        translator = load_translator(
            folder(tmp_path / order, "recurrent", "variant", end=-2.0)
        )
        explanation = explain(translator, TEXT, beam=2, attributions=False)
        figure = draw_map(translator, TEXT, explanation)
        labels = [mark.text for mark in figure.marks() if isinstance(mark, Text)]
        assert all(labels.count(word) == 2 for word in {*TEXT.split(), "(end)"}), labels
        first = order == "bahdanau"  # the state before the first step is not recorded
        states = [
            mark
            for mark in figure.marks()
            if isinstance(mark, Text) and mark.paint == "s1" and mark.text != "W"
        ]
        assert len(states) == len(explanation.data.target) - first


def test_a_recurrent_model_has_no_residual_connections_to_draw(tmp_path: Path) -> None:
    translator = load_translator(folder(tmp_path / "run", "recurrent", "recurrent"))
    explanation = explain(translator, TEXT, beam=2, attributions=False)
    with pytest.raises(UsageError, match="wanted a Transformer with residual"):
        draw_residuals(translator, TEXT, explanation)
