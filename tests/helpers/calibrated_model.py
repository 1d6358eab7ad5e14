"""A small model whose calibration is known."""

from __future__ import annotations

from pathlib import Path

from helpers.small_models import folder

from regard.model_folder import load_settings, write_settings
from regard.text.quality import Quality

QUALITY = Quality(good=(0.5, 1.5, 0.25, -0.75), pairs=300, share=0.5)


def calibrated(path: Path) -> Path:
    """Write a model folder with this calibration."""
    model = folder(path)
    calibrate(model)
    return model


def calibrate(model: Path) -> None:
    """Give a model folder this calibration."""
    settings = load_settings(model)
    write_settings(model, settings.with_values(quality=QUALITY))
