"""Calibration: how often the most probable next token is right, against its probability (Guo et al.
2017).

Each token of a reference is predicted from the preceding tokens of the reference, as in training
(teacher forcing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from regard.data.batch import Example
from regard.data.batch_stream import BatchingSettings, BatchStream
from regard.data.vocabulary import PAD
from regard.models import Batch, Model, device_of

BINS = 10
TOKENS = 1024
"""Target tokens of a batch, whose logits are all in memory at once."""


@dataclass(frozen=True)
class CalibrationBin:
    """Predictions with a probability from `low` to `high`: number, mean probability, and share of
    right ones.
    """

    low: float
    high: float
    tokens: int
    probability: float
    right: float


@dataclass(frozen=True)
class Calibration:
    """Calibration in bins of the probability; empty bins are left out.

    `error` is the expected calibration error: the mean of |probability − share right|, weighted by
    tokens.
    """

    bins: tuple[CalibrationBin, ...]
    error: float


@torch.inference_mode()
def calibration(model: Model, examples: Sequence[Example]) -> Calibration:
    """Measure the calibration of a model on encoded pairs, or on encoded images and captions."""
    model.eval()
    probabilities = list[torch.Tensor]()
    right = list[torch.Tensor]()
    stream = BatchStream(list(examples), BatchingSettings(tokens=TOKENS), seed=0)
    for plan in stream.epoch(0):
        batch = plan.batch().to(device_of(model))
        features = model(Batch(batch.source, batch.source_keep), batch.target_in)
        best = model.project(features).float().softmax(-1).max(-1)
        keep = batch.target_out != PAD
        probabilities.append(best.values[keep].cpu())
        right.append((best.indices == batch.target_out)[keep].cpu())
    return calibration_of(
        torch.cat(probabilities).double().numpy(), torch.cat(right).numpy()
    )


def calibration_of(
    probabilities: npt.NDArray[np.float64], right: npt.NDArray[np.bool_]
) -> Calibration:
    """Sort predictions into ten bins of equal width by their probability."""
    numbers = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    bins = []
    for number in range(BINS):
        inside = numbers == number
        count = int(inside.sum())
        if not count:
            continue
        mean = float(probabilities[inside].mean())
        share = float(right[inside].mean())
        bins.append(
            CalibrationBin(number / BINS, (number + 1) / BINS, count, mean, share)
        )
    total = max(1, len(probabilities))
    error = (
        sum(item.tokens * abs(item.probability - item.right) for item in bins) / total
    )
    return Calibration(tuple(bins), error)
