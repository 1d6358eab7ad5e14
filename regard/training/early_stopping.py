"""Early stopping: training ends if the validation score has not improved for some validations."""

from __future__ import annotations

MEANINGFUL_BLEU = 1.0
"""BLEU below which its ups and downs are chance."""


def meaningful(score: float, best_by: str) -> float:
    """Return a validation score, or 0 for one that means nothing yet; the loss then decides."""
    return 0.0 if best_by == "bleu" and score < MEANINGFUL_BLEU else score


def is_patience_over(validations_since_best: int, patience: int) -> bool:
    """Return whether as many validations as `training.patience` brought no better score."""
    return validations_since_best >= patience
