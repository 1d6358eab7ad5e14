"""Fit the probability that a translation is good to held-out pairs.

Good is a chrF of `GOOD` or more. The logistic function is fitted by Newton's method to the
log-likelihood with a small ridge.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from regard.evaluation.text_metrics import sentence_chrf
from regard.text.quality import FEATURES, GOOD, Quality, features
from regard.text.translation import Translation

LEAST = 200
"""Fewest pairs that quality is fitted to."""
FOLDS = 5
FIFTHS = 5
_RIDGE = 1e-3
_STEPS = 50
_DIGITS = 6
Array = npt.NDArray[np.float64]


def calibrate(
    translations: Sequence[Translation], references: Sequence[str]
) -> Quality | None:
    """Return the calibration of a model by its translations of held-out sources; None for fewer
    than `LEAST` of one sentence, or if all or none of them are good.
    """
    rows = [
        (part.source, part.text, part.score, sentence_chrf(result.text, reference))
        for result, reference in zip(translations, references, strict=True)
        for part in result.parts
        if len(result.parts) == 1 and part.score < 0 and not result.broken
    ]
    values = np.array([features(*row[:3]) for row in rows]).reshape(-1, FEATURES)
    chrf = np.array([row[3] for row in rows])
    good = (chrf >= GOOD).astype(np.float64)
    if len(rows) < LEAST or good.min() == good.max():
        return None
    return Quality(
        tuple(round(float(weight), _DIGITS) for weight in _logistic(values, good)),
        len(rows),
        round(float(good.mean()), _DIGITS),
        _curve(values, good),
    )


def _scaled(values: Array) -> tuple[Array, Array, Array]:
    """Return features of mean 0 and deviation 1 behind the constant, their means and deviations."""
    means = values[:, 1:].mean(0)
    deviations = values[:, 1:].std(0) + 1e-9
    constant = np.ones((len(values), 1))
    return (
        np.hstack([constant, (values[:, 1:] - means) / deviations]),
        means,
        deviations,
    )


def _logistic(values: Array, good: Array) -> Array:
    scaled, means, deviations = _scaled(values)
    ridge = _RIDGE * len(good) * np.array([0.0] + [1.0] * (FEATURES - 1))
    weights = np.zeros(FEATURES)
    for _ in range(_STEPS):
        predicted = 1 / (1 + np.exp(-np.clip(scaled @ weights, -50, 50)))
        gradient = scaled.T @ (good - predicted) - ridge * weights
        curvature = predicted * (1 - predicted) + 1e-9
        hessian = (scaled * curvature[:, None]).T @ scaled + np.diag(ridge)
        weights = weights + np.linalg.solve(hessian, gradient)
    slopes = weights[1:] / deviations  # of the features before they were scaled
    return np.concatenate([[weights[0] - slopes @ means], slopes])


def _curve(values: Array, good: Array) -> tuple[tuple[float, float], ...]:
    """Return mean probability and share of good ones of each fifth, each pair predicted by a fit to
    the other folds.
    """
    predicted = np.empty(len(good))
    order = np.random.default_rng(0).permutation(len(good))
    for fold in np.array_split(order, FOLDS):
        others = np.setdiff1d(order, fold)
        weights = _logistic(values[others], good[others])
        predicted[fold] = 1 / (1 + np.exp(-np.clip(values[fold] @ weights, -50, 50)))
    return tuple(
        (round(float(predicted[fifth].mean()), 4), round(float(good[fifth].mean()), 4))
        for fifth in np.array_split(np.argsort(predicted, kind="stable"), FIFTHS)
    )
