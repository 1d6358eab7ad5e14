"""Calibration: bins equal to direct counts, and predictions equal to those of one token at a
time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.small_models import DECODER_KINDS, SENTENCES, folder

from regard.data.examples import encode_pairs
from regard.data.vocabulary import BOS
from regard.evaluation.calibration import calibration, calibration_of
from regard.models import Batch
from regard.pipeline import load_translator


def test_bins_are_direct_counts() -> None:
    probabilities = np.array([0.05, 0.1, 0.19, 0.95, 1.0, 0.999])
    right = np.array([False, True, False, True, True, False])
    result = calibration_of(probabilities, right)
    assert [(item.low, item.high, item.tokens) for item in result.bins] == [
        (0.0, 0.1, 1),
        (0.1, 0.2, 2),
        (0.9, 1.0, 3),
    ]
    assert [item.right for item in result.bins] == pytest.approx([0, 0.5, 2 / 3])
    gaps = [0.05, abs(0.145 - 0.5), abs((0.95 + 1 + 0.999) / 3 - 2 / 3)]
    assert result.error == pytest.approx((gaps[0] + 2 * gaps[1] + 3 * gaps[2]) / 6)


@pytest.mark.parametrize("decoder", DECODER_KINDS)
def test_predictions_are_those_of_one_sentence_at_a_time(
    tmp_path: Path, decoder: str
) -> None:
    translator = load_translator(folder(tmp_path / "run", "recurrent", decoder))
    examples = encode_pairs(SENTENCES, SENTENCES[::-1], translator.tokenizer)
    model = translator.model
    probabilities = []
    right = []
    with torch.no_grad():
        for example in examples:
            source = torch.tensor([example.source_ids])
            target_in = torch.tensor([[BOS, *example.target[:-1]]])
            best = (
                model.project(model(Batch(source, None), target_in)).softmax(-1).max(-1)
            )
            probabilities += best.values[0].tolist()
            right += (best.indices[0] == torch.tensor(example.target)).tolist()
    expected = calibration_of(np.array(probabilities), np.array(right))
    measured = calibration(model, examples)  # type: ignore[arg-type]
    assert measured.error == pytest.approx(expected.error, abs=1e-5)
    assert [item.tokens for item in measured.bins] == [
        item.tokens for item in expected.bins
    ]
