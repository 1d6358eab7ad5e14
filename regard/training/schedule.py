"""Learning-rate schedules: linear warm-up, then inverse square root decay, or a constant rate."""

from __future__ import annotations

from typing import Literal

import pydantic
from pydantic import Field

from regard.common.settings import COUNT, FACTOR, Settings

NOAM_WARMUP = 4000
"""Warm-up of Vaswani et al. 2017."""


class ScheduleSettings(Settings):
    """Settings of the learning-rate schedule."""

    kind: Literal["inverse_square_root", "noam", "constant"] = Field(
        "inverse_square_root",
        description="decay like 1/√update from the peak; noam: the peak follows from the model "
        "size; constant: stay at the peak",
    )
    peak: float = Field(
        5e-3,
        gt=0,
        le=FACTOR,
        description="the highest learning rate; with noam the factor of the paper's formula, 1 by "
        "default",
    )
    warmup: int = Field(
        2000,
        ge=0,
        le=COUNT,
        description="updates until the peak, 4,000 by default with noam; 0: no warm-up",
    )

    @pydantic.model_validator(mode="before")
    @classmethod
    def _noam_defaults(cls, values: object) -> object:
        if isinstance(values, dict) and values.get("kind") == "noam":
            return {"peak": 1.0, "warmup": NOAM_WARMUP, **values}
        return values


def learning_rate(settings: ScheduleSettings, update: int, size: int) -> float:
    """Return the learning rate of update 1, 2, … for a model of this size.

    - noam: peak · size^−0.5 · min(update^−0.5, update · warmup^−1.5) (Vaswani et al. 2017,
      equation 3)
    - inverse_square_root: the same curve, scaled so that its maximum is the peak
    - constant: peak · min(1, update / warmup)

    Without warm-up the decay begins at the first update.
    """
    warmup = max(1, settings.warmup)
    if settings.kind == "constant":
        return settings.peak * min(1.0, update / warmup)
    scale = size**-0.5 if settings.kind == "noam" else warmup**0.5
    return float(settings.peak * scale * min(update**-0.5, update * warmup**-1.5))
