"""Learning-rate schedules: linear warm-up, then inverse square root decay."""

from __future__ import annotations

from typing import Any, Literal

import pydantic
from pydantic import Field

from regard.settings import COUNT, FACTOR, Settings


class ScheduleSettings(Settings):
    """Settings of the learning-rate schedule."""

    kind: Literal["inverse_square_root", "noam"] = Field(
        "inverse_square_root",
        description="decay like 1/√update from the peak; noam: the peak follows from the model size",
    )
    peak: float = Field(
        5e-3,
        gt=0,
        le=FACTOR,
        description="the highest learning rate; with noam the factor of the paper's formula, 1 by default",
    )
    warmup: int = Field(2000, ge=1, le=COUNT, description="updates until the peak")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _noam_factor(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("kind") == "noam":
            return {"peak": 1.0, **values}
        return values


def learning_rate(settings: ScheduleSettings, update: int, size: int) -> float:
    """The learning rate of update 1, 2, … for a model of vectors of `size`.

    noam: peak · size^−0.5 · min(update^−0.5, update · warmup^−1.5) (Vaswani et al. 2017, equation 3);
    inverse_square_root: the same shape with its peak given.
    """
    shape = min(update**-0.5, update * settings.warmup**-1.5)
    if settings.kind == "noam":
        return float(settings.peak * size**-0.5 * shape)
    return float(settings.peak * settings.warmup**0.5 * shape)
