"""Probability that a translation is good, from the model's own score, calibrated on held-out pairs.

P(good) is a logistic function (Platt 1999) of the score of a sentence and of the lengths of both
sides; the chrF to be expected is a linear one of the same features.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

GOOD = 50.0
"""chrF of a sentence from which on its translation counts as good."""
FEATURES = 4


@dataclass(frozen=True)
class Quality:
    """Calibration of a model. Raises ValueError for values that are none.

    `good` and `chrf` are weights of the features; `pairs`, how many held-out pairs they were fitted
    on; `share`, the share of these whose translation is good; `curve`, for each fifth of them, from
    the least trusted on, the mean probability and the share that is good, by cross-validation.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = {
        "strict": False,
        "extra": "forbid",
    }
    good: tuple[float, ...]
    chrf: tuple[float, ...]
    pairs: int
    share: float
    curve: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        weights = (*self.good, *self.chrf)
        if len(self.good) != FEATURES or len(self.chrf) != FEATURES:
            raise ValueError(f"wanted {FEATURES} weights each in `good` and `chrf`")
        if not all(map(math.isfinite, weights)):
            raise ValueError("wanted finite weights in `good` and `chrf`")
        if self.pairs < 1 or not 0 <= self.share <= 1:
            raise ValueError("wanted `pairs` of 1 or more, and `share` from 0 to 1")

    def probability(self, source: str, text: str, score: float) -> float:
        """Return the probability that the translation of a sentence is good.

        A sentence without letters, which has the score 0, is copied, and good.
        """
        if score == 0.0:
            return 1.0
        logit = _product(self.good, features(source, text, score))
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, logit))))

    def expected_chrf(self, source: str, text: str, score: float) -> float:
        """Return the chrF to be expected of the translation of a sentence, from 0 to 100."""
        value = _product(self.chrf, features(source, text, score))
        return max(0.0, min(100.0, value))


class Trust(NamedTuple):
    """Rules for how far a translation is trusted: the score below which it is doubtful, and the
    calibration, each None if it is unknown or does not apply to the scores of a search.
    """

    threshold: float | None = None
    quality: Quality | None = None

    def probability(self, source: str, text: str, score: float) -> float | None:
        """Return the probability that the translation of a sentence is good; None if unknown."""
        if self.quality is None:
            return None
        return self.quality.probability(source, text, score)


def features(source: str, text: str, score: float) -> tuple[float, ...]:
    """Return what the quality of a sentence is told from. Lengths are in characters."""
    length = math.log(1 + len(text))
    return (1.0, max(score, -20.0), length, length - math.log(1 + len(source)))


def _product(weights: tuple[float, ...], values: tuple[float, ...]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))
