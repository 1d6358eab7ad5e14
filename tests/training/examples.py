"""Sentences in several batches, and settings of models with dropout, for tests of losses and
gradients.
"""

from __future__ import annotations

from regard.data.batch import Example
from regard.data.vocabulary import EOS
from regard.models import ModelSettings

PAIRS = [
    [([5, 6, 7], [8, 9]), ([4], [10, 11, 5])],
    [([9, 9, 4, 8], []), ([6, 5], [4, 4, 7])],
    [([12], [7, 8]), ([14, 15], [9, 9])],
    [([5] * 5, [6, 7, 8])],
]
EXAMPLES = [
    [Example([*source, EOS], [*target, EOS]) for source, target in sentences]
    for sentences in PAIRS
]


def with_dropout(settings: ModelSettings) -> ModelSettings:
    """Return the same settings with dropout."""
    return ModelSettings(
        encoder=settings.encoder.with_values(dropout=0.3),
        decoder=settings.decoder.with_values(dropout=0.3),
        share=settings.share,
    )
