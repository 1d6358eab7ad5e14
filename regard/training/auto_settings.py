"""Settings that suit a corpus of sentence pairs, by its size; for runs that name neither a preset
nor a model.

The rule was measured: `benchmarks/settings_grid.py` trains models of many settings for equal
processor time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.common.counting import counted
from regard.common.errors import RegardError
from regard.common.reading import package_toml
from regard.data.corpus import CorpusSettings
from regard.data.pair_filters import PairReader
from regard.training.recipe import Recipe

FEW = 200
"""Pairs below which nothing of use is learnt."""
MANY = 200_000
"""Pairs from which on settings no longer depend on the corpus."""
TOKENS = 4096, 2048, 1024
"""Tokens of an update, of which the most are taken that leave an epoch its updates."""
EPOCH_UPDATES = 150
"""Updates that an epoch should have."""
SMALLEST = "transformer-tiny"
"""The preset of a small corpus."""
SHALLOW = 300_000
"""Tokens of an epoch up to which a shallower model with less dropout is better in the time that one
gives it.
"""
QUICK = 1_200
"""Processor seconds of a budget up to which it is better whatever the corpus, as it learns most in
that time.
"""
LIKE = 6
"""Factor of pairs, times that of characters in one, up to which another corpus says what may be
expected.
"""
_CHARACTERS_A_TOKEN = 4
_SHAPE = {"layers": "{} layers", "dropout": "dropout {}"}


@dataclass(frozen=True)
class CorpusSize:
    """Pairs of a training corpus, characters of both its sides, and the sides of which all lines
    are alike.
    """

    pairs: int
    characters: int
    constant: tuple[str, ...] = ()


def corpus_size(data: CorpusSettings) -> CorpusSize | None:
    """Count pairs and characters; None from `MANY` pairs on, for images, and for files that cannot
    be read.

    Pipes, which can be read only once and may block, are not opened: None, too.
    """
    paths = [
        path for files in data.training_files.values() for path in files.paths.values()
    ]
    if not all(path.is_file() for path in paths if isinstance(path, Path)):
        return None
    try:
        pairs = chain.from_iterable(map(PairReader, data.training_files.values()))
        rows = list(islice((pair for pair in pairs if all(pair)), MANY))
    except (RegardError, OSError):
        # Reading them for training says what is wrong, all at once.
        return None
    if not 0 < len(rows) < MANY:
        return None
    sides = zip(("source", "target"), zip(*rows, strict=True), strict=True)
    constant = tuple(
        side for side, lines in sides if len(rows) > 1 and len({*lines}) == 1
    )
    return CorpusSize(
        len(rows), sum(len(source) + len(target) for source, target in rows), constant
    )


def suitable(
    size: CorpusSize, preset: str, seconds: float = math.inf
) -> dict[str, Any]:
    """Return the values beside those of a preset that suit a corpus of this size, and a budget in
    processor seconds.

    A small corpus wants small updates: what counts in the first hour is their number. An epoch has
    at least 150 of them, of 1,024 to 4,096 tokens (30,000 pairs want about 1,000: Gowda and May,
    2020). Every other epoch is validated. The smallest preset has two layers of four then (fewer,
    too, in Araabi and Monz, 2020), and half of its dropout.
    """
    epoch = size.characters / 2 / _CHARACTERS_A_TOKEN
    tokens = next((n for n in TOKENS if epoch / n >= EPOCH_UPDATES), TOKENS[-1])
    values: dict[str, Any] = {
        "batching": {"tokens": tokens},
        "training": {
            "validate_every": min(500, max(100, int(round(2 * epoch / tokens, -2))))
        },
    }
    if preset == SMALLEST and (epoch <= SHALLOW or seconds <= QUICK):
        side = {"layers": 2, "dropout": 0.1}
        values["model"] = {"encoder": side, "decoder": side}
    return values


def describe(size: CorpusSize, recipe: Recipe) -> Iterator[str]:
    """Yield which settings a recipe has for a corpus of this size, and what cannot be learnt from
    it.
    """
    if size.pairs < FEW:
        few = counted(size.pairs, "pair is", "pairs are")
        yield f"{few} enough to try the commands; to learn a language takes some thousands"
    for side in size.constant:
        yield (
            f"every line of the {side} is the same: nothing can be learnt from such pairs; check "
            "the files"
        )
    encoder = recipe.model.encoder
    shape = [
        text.format(getattr(encoder, name))
        for name, text in _SHAPE.items()
        if hasattr(encoder, name)
    ]
    yield (
        f"settings for {counted(size.pairs, 'pair')} with {size.characters:,} characters: updates "
        f"of {recipe.batching.tokens:,} tokens, {', '.join(shape)}, a validation every "
        f"{recipe.training.validate_every:,} updates (the page Training of the documentation says "
        "why; --set or --preset choose others)"
    )
    if size.pairs >= FEW:
        yield _comparison(size)


def _comparison(size: CorpusSize) -> str:
    """Return what the corpus nearest in pairs and in their length reached, of those that the rule
    was measured on.
    """
    corpora = package_toml("regard.training", "reference_scores.toml")["corpora"]

    def distance(corpus: dict[str, Any]) -> float:
        pairs = size.pairs / corpus["pairs"]
        characters = size.characters / corpus["characters"]
        return abs(math.log(pairs)) + abs(math.log(characters / pairs))

    nearest = min(corpora, key=distance)
    if distance(nearest) > math.log(LIKE):
        return (
            "for comparison: none of the corpora that were measured has about as many pairs of "
            "that length"
        )
    scores = ", ".join(
        f"{chrf:.0f} after {int(mark) // 60}" for mark, chrf in nearest["chrf"].items()
    )
    return (
        f"for comparison: {nearest['pairs']:,} {nearest['text']}, came to chrF {scores} minutes of "
        "one processor"
    )
