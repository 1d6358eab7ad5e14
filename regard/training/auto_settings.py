"""Settings that suit a corpus of sentence pairs, by its size; for runs that name neither a preset nor a model.

The rule was measured: `benchmarks/settings_grid.py` trains models of many settings for equal processor time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from regard.common.errors import RegardError
from regard.data.corpus import CorpusSettings
from regard.data.pairs import PairFiles, PairReader
from regard.training.recipe import Recipe

MANY = 200_000
"""Pairs from which on settings no longer depend on the corpus."""
TOKENS = 4096, 2048, 1024
"""Tokens of an update, of which the most are taken that leave an epoch its updates."""
EPOCH_UPDATES = 150
"""Updates that an epoch should have."""
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True)
class CorpusSize:
    """Pairs of a training corpus, and characters of both its sides."""

    pairs: int
    characters: int


def corpus_size(data: CorpusSettings) -> CorpusSize | None:
    """Count pairs and characters; None from `MANY` pairs on, for images, and for files that cannot be read."""
    try:
        rows = list(islice(chain.from_iterable(map(_rows, data.training_files.values())), MANY))
    except (RegardError, OSError):  # reading them for training says what is wrong, all at once
        return None
    return CorpusSize(len(rows), sum(rows)) if 0 < len(rows) < MANY else None


def _rows(files: PairFiles) -> Iterable[int]:
    """Yield the characters of each pair of which no side is empty."""
    return (len(source) + len(target) for source, target in PairReader(files) if source and target)


def suitable(size: CorpusSize) -> dict[str, Any]:
    """Return the values of a recipe that suit a corpus of this size.

    A small corpus wants small updates: what counts in the first hour is their number. An epoch has at least 150 of
    them, of 1,024 to 4,096 tokens (30,000 pairs want about 1,000: Gowda and May, 2020). Every other epoch is validated.
    """
    epoch = size.characters / 2 / _CHARACTERS_A_TOKEN
    tokens = next((n for n in TOKENS if epoch / n >= EPOCH_UPDATES), TOKENS[-1])
    return {
        "batching": {"tokens": tokens},
        "training": {"validate_every": min(500, max(100, int(round(2 * epoch / tokens, -2))))},
    }


def describe(size: CorpusSize, recipe: Recipe) -> str:
    """Return in a sentence which settings a recipe has for a corpus of this size."""
    return (
        f"settings for {size.pairs:,} pairs with {size.characters:,} characters: batching.tokens "
        f"{recipe.batching.tokens:,}, training.validate_every "
        f"{recipe.training.validate_every:,} (docs/training.md; --set or --preset choose others)"
    )
