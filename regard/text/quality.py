"""Probability that a translation is good, from the model's own score, calibrated on held-out pairs.

P(good) is a logistic function (Platt 1999) of the score of a sentence and of the lengths of both
sides. A translation is doubtful if its quality is low.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

GOOD = 50.0
"""chrF of a sentence from which on its translation counts as good."""
DOUBTFUL = 0.3
"""Quality below which a translation is doubtful."""
FEATURES = 4


@dataclass(frozen=True)
class Quality:
    """Calibration of a model. Raises ValueError for values that are none.

    `good`: weights of the features; `pairs`: number of held-out pairs they were fitted on; `share`:
    share of these whose translation is good; `curve`: for each fifth of them, from the least
    trusted on, the mean probability and the share that is good, by cross-validation.
    """

    # Earlier calibrations have weights of an expected chrF, which nothing reads.
    __pydantic_config__: ClassVar[dict[str, object]] = {
        "strict": False,
        "extra": "ignore",
    }
    good: tuple[float, ...]
    pairs: int
    share: float
    curve: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        if len(self.good) != FEATURES or not all(map(math.isfinite, self.good)):
            raise ValueError(f"wanted {FEATURES} finite weights in `good`")
        if self.pairs < 1 or not 0 <= self.share <= 1:
            raise ValueError("wanted `pairs` of 1 or more, and `share` from 0 to 1")

    def probability(self, source: str, text: str, score: float) -> float:
        """Return the probability that the translation of a sentence is good.

        A sentence without letters, which has the score 0, is copied, and good.
        """
        if score == 0.0:
            return 1.0
        values = features(source, text, score)
        logit = sum(map(operator.mul, self.good, values))
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, logit))))


class Trust(NamedTuple):
    """Rules for how far a translation is trusted, each None if it is unknown or does not apply to
    the scores of a search: the calibration, and for a model without one the score below which a
    translation is doubtful.
    """

    threshold: float | None = None
    quality: Quality | None = None


def features(source: str, text: str, score: float) -> tuple[float, ...]:
    """Return what the quality of a sentence is told from. Lengths are in characters."""
    length = math.log(1 + len(text))
    return (1.0, max(score, -20.0), length, length - math.log(1 + len(source)))
