"""Early stopping: training ends if the validation score has not improved for some validations."""

from __future__ import annotations


def is_patience_over(validations_since_best: int, patience: int) -> bool:
    """Return whether as many validations as `training.patience` brought no better score."""
    return validations_since_best >= patience
