"""Saliency, erasure and rank correlation, against plain computations of the same."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.small_models import folder

import regard
from regard.data.vocabulary import BOS, EOS
from regard.evaluation.faithfulness import (
    agreement,
    erasure,
    gradient_times_input,
    measure_faithfulness,
    rank_correlation,
)
from regard.explain.explanation import explain
from regard.models import Batch
from regard.pipeline import last_layer

LINE = "나는 빵을 먹고 있었다"


def test_ranks_are_correlated_as_by_hand() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 99]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)

    # Ranks 0.5 0.5 2 3 against 0 1 2 3: 1 − … does not hold with ties, so Pearson's r of the ranks
    # by hand.
    by_hand = 4.5 / math.sqrt(4.5 * 5)
    assert rank_correlation([1, 1, 2, 3], [1, 2, 3, 4]) == pytest.approx(by_hand)
    assert math.isnan(rank_correlation([1, 1], [1, 2]))

    without_constant_row = agreement(
        np.array([[1, 2], [1, 1]], np.float32), np.array([[3, 4], [5, 6]], np.float32)
    )

    assert without_constant_row == pytest.approx(1)


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_gradients_equal_finite_differences(kind: str, tmp_path: Path) -> None:
    folder(tmp_path / "run", kind, kind)
    translator = regard.load(tmp_path / "run")
    model: Any = translator.model
    source = translator.encode(LINE)
    target = translator.tokenizer.target.encode("I was")
    saliency = gradient_times_input(model, source, target)

    assert saliency.shape == (len(target) + 1, len(source))

    labels = torch.tensor([*target, EOS])

    def log_probs(position: int, by: float) -> np.ndarray:
        """Return the log-probabilities with the embedding of one source token lengthened."""
        calls = []

        def lengthen(_: object, __: object, output: torch.Tensor) -> torch.Tensor:
            calls.append(output)
            if len(calls) > 1:
                return output
            changed = output.clone()
            changed[:, position] *= 1 + by

            return changed

        handle = model.encoder.embedding.register_forward_hook(lengthen)
        batch = Batch(torch.tensor([source]))
        with torch.no_grad():
            logits = model.project(model(batch, torch.tensor([[BOS, *target]])))

        handle.remove()
        values = logits[0].double().log_softmax(-1)
        return np.asarray(values.gather(1, labels[:, None])[:, 0])

    for s in range(len(source)):
        slopes = np.abs(log_probs(s, 1e-3) - log_probs(s, -1e-3)) / 2e-3
        np.testing.assert_allclose(saliency[:, s], slopes, rtol=2e-2, atol=3e-3)


def test_erasure_is_scored_by_teacher_forcing_without_the_word(tmp_path: Path) -> None:
    folder(tmp_path / "run", end=-3.0)
    translator = regard.load(tmp_path / "run")
    model: Any = translator.model
    readings = translator.translate(LINE, readings=True)[0].readings

    assert readings is not None

    target = translator.tokenizer.target.ids(readings.target)[:-1]
    losses = erasure(model, translator.encode(LINE), target, readings)
    assert losses.shape == (len(readings.target_text), len(LINE.split()))

    layer = last_layer(readings)
    faithfulness = measure_faithfulness(translator, LINE, target, readings, layer)
    np.testing.assert_array_equal(faithfulness.erasure, losses)
    assert "rank correlation of attention with gradient × input" in str(faithfulness)


def test_an_explanation_holds_the_translation_and_its_search(tmp_path: Path) -> None:
    translator = regard.load(folder(tmp_path / "run", end=-2.0))
    (plain,) = translator.translate(LINE, beam=3)
    explanation = explain(translator, f"  {LINE} ", beam=3)
    data = explanation.data

    assert explanation.translation.text == plain.text
    assert data.source == tuple(LINE.split())
    assert " ".join(data.target) == plain.text
    assert len(data.steps) == len(plain.tokens) + 1

    winners = [next(node for node in step.nodes if node.wins) for step in data.steps]
    assert [winner.token for winner in winners] == [*data.tokens]

    for step, winner in zip(data.steps, winners[1:], strict=False):
        assert step.nodes[winner.parent].wins

    assert {layer.role for layer in data.layers} == {"cross", "encoder", "decoder"}
    assert data.attributions is not None
    assert data.attributions.weights[0].shape == (len(data.target), 4)
