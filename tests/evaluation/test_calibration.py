"""Calibration: bins equal to direct counts, and predictions equal to those of one token at a
time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    first, second, last = result.bins

    assert (first.low, first.high, first.tokens, first.right) == (0.0, 0.1, 1, 0)
    assert (second.low, second.high, second.tokens, second.right) == (0.1, 0.2, 2, 0.5)
    assert (last.low, last.high, last.tokens) == (0.9, 1.0, 3)
    assert last.right == pytest.approx(2 / 3)

    of_first = 0.05
    of_second = 0.5 - 0.145
    of_last = (0.95 + 1 + 0.999) / 3 - 2 / 3

    assert result.error == pytest.approx((of_first + 2 * of_second + 3 * of_last) / 6)


@pytest.mark.parametrize("decoder", DECODER_KINDS)
def test_predictions_are_those_of_one_sentence_at_a_time(
    tmp_path: Path, decoder: str
) -> None:
    translator = load_translator(folder(tmp_path / "run", "recurrent", decoder))
    model: Any = translator.model
    examples = encode_pairs(SENTENCES, SENTENCES[::-1], translator.tokenizer)
    probabilities: list[float] = []
    right: list[bool] = []
    for example in examples:
        source = Batch(torch.tensor([example.source_ids]), None)
        target_in = torch.tensor([[BOS, *example.target[:-1]]])
        with torch.no_grad():
            logits = model.project(model(source, target_in))[0]

        best = logits.softmax(-1).max(-1)
        probabilities += best.values.tolist()
        right += (best.indices == torch.tensor(example.target)).tolist()

    expected = calibration_of(np.array(probabilities), np.array(right))
    measured = calibration(model, examples)
    assert measured.error == pytest.approx(expected.error, abs=1e-5)

    counts = [item.tokens for item in measured.bins]
    assert counts == [item.tokens for item in expected.bins]
