"""Settings that suit a corpus of sentence pairs, by its size; for runs that name neither a preset nor a model.

The rule was measured: `benchmarks/settings_grid.py` trains models of many settings for equal processor time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.common.errors import RegardError
from regard.data.corpus import CorpusSettings
from regard.data.pairs import PairReader
from regard.training.recipe import Recipe

FEW = 200
"""Pairs below which nothing of use is learnt."""
MANY = 200_000
"""Pairs from which on settings no longer depend on the corpus."""
TOKENS = 4096, 2048, 1024
"""Tokens of an update, of which the most are taken that leave an epoch its updates."""
EPOCH_UPDATES = 150
"""Updates that an epoch should have."""
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True)
class CorpusSize:
    """Pairs of a training corpus, characters of both its sides, and the sides of which all lines are alike."""

    pairs: int
    characters: int
    constant: tuple[str, ...] = ()


def corpus_size(data: CorpusSettings) -> CorpusSize | None:
    """Count pairs and characters; None from `MANY` pairs on, for images, and for files that cannot be read.

    Pipes, which can be read only once and may block, and addresses are not opened: None, too.
    """
    paths = [path for files in data.training_files.values() for path in files.paths.values()]
    if not all(isinstance(path, Path) and path.is_file() for path in paths):
        return None
    try:
        pairs = chain.from_iterable(map(PairReader, data.training_files.values()))
        rows = list(islice((pair for pair in pairs if all(pair)), MANY))
    except (RegardError, OSError):  # reading them for training says what is wrong, all at once
        return None
    if not 0 < len(rows) < MANY:
        return None
    sides = zip(("source", "target"), zip(*rows, strict=True), strict=True)
    constant = tuple(side for side, lines in sides if len(rows) > 1 and len({*lines}) == 1)
    return CorpusSize(len(rows), sum(len(source) + len(target) for source, target in rows), constant)


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


def describe(size: CorpusSize, recipe: Recipe) -> Iterator[str]:
    """Yield which settings a recipe has for a corpus of this size, and what cannot be learnt from it."""
    if size.pairs < FEW:
        yield f"{size.pairs:,} pairs are enough to try the commands; to learn a language takes some thousands"
    for side in size.constant:
        yield f"every line of the {side} is the same: nothing can be learnt from such pairs; check the files"
    yield (
        f"settings for {size.pairs:,} pairs with {size.characters:,} characters: batching.tokens "
        f"{recipe.batching.tokens:,}, training.validate_every "
        f"{recipe.training.validate_every:,} (docs/training.md; --set or --preset choose others)"
    )
