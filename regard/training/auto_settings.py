"""Settings that suit the size of a corpus, for runs that name neither a preset nor a model.

The rule was found by experiment: `benchmarks/settings_grid.py` trains models of many settings for
equal processor time.
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
from regard.data.corpus_settings import CorpusSettings
from regard.data.file_formats import PairReader
from regard.training.recipe import Recipe

FEWEST_USEFUL_PAIRS = 200
"""Pairs below which a model learns nothing useful."""
MAX_COUNTED_PAIRS = 200_000
"""Pairs from which on settings no longer depend on the corpus."""
UPDATE_TOKENS = 4096, 2048, 1024
"""Sizes of an update in tokens; the largest is used with which an epoch has enough updates."""
EPOCH_UPDATES = 150
"""Updates that an epoch should have."""
SMALLEST = "transformer-tiny"
"""The preset of a small corpus."""
SHALLOW_EPOCH_TOKENS = 300_000
"""Tokens of an epoch up to which a shallower model with less dropout is better."""
SHALLOW_SECONDS = 1_200
"""Processor seconds of a budget up to which the shallower model is better for any corpus."""
COMPARABLE_RATIO = 6
"""Two corpora are comparable if the ratio of their numbers of pairs times the ratio of their pair
lengths is at most this; each ratio is the larger value over the smaller.
"""
_CHARACTERS_A_TOKEN = 4
_SHAPE = {"layers": "{} layers", "dropout": "dropout {}"}


@dataclass(frozen=True)
class CorpusSize:
    """Number of pairs of a training corpus, and of characters of both its sides.

    `constant` names the sides that consist of equal lines.
    """

    pairs: int
    characters: int
    constant: tuple[str, ...] = ()


def corpus_size(data: CorpusSettings) -> CorpusSize | None:
    """Count pairs and characters.

    Returns None from `MAX_COUNTED_PAIRS` pairs on, for images, and for files that cannot be read.
    Pipes, which can be read only once and may block, are not opened; the result is None for them
    too.

    Training reads the files once more: settings are composed, checked and reported before a run may
    lock its folder and read its data, and comparisons compose recipes that they do not train. This
    reading neither cleans nor filters, and takes at most a second, a quarter of what training needs
    to read as many pairs.
    """
    paths = [
        path for files in data.training_files.values() for path in files.paths.values()
    ]
    if not all(path.is_file() for path in paths if isinstance(path, Path)):
        return None
    try:
        pairs = chain.from_iterable(map(PairReader, data.training_files.values()))
        rows = list(islice((pair for pair in pairs if all(pair)), MAX_COUNTED_PAIRS))
    except (RegardError, OSError):
        # The training data will be read again, and all problems reported then.
        return None
    if not 0 < len(rows) < MAX_COUNTED_PAIRS:
        return None
    constant = tuple(
        side
        for index, side in enumerate(("source", "target"))
        if len(rows) > 1 and all(row[index] == rows[0][index] for row in rows)
    )
    characters = sum(len(source) + len(target) for source, target in rows)
    return CorpusSize(len(rows), characters, constant)


def suitable(
    size: CorpusSize, preset: str, seconds: float = math.inf
) -> dict[str, object]:
    """Return values that replace those of a preset for a corpus of this size.

    `seconds` is the time budget in processor seconds. A small corpus needs small updates, because
    their number matters most in the first hour: an epoch has at least 150 updates of 1,024 to 4,096
    tokens (30,000 pairs need about 1,000 tokens: Gowda and May, 2020). There is a validation every
    other epoch. The smallest preset then gets two layers instead of four (as in Araabi and Monz,
    2020), and half of its dropout.
    """
    epoch_tokens = size.characters / 2 / _CHARACTERS_A_TOKEN
    tokens = next(
        (n for n in UPDATE_TOKENS if epoch_tokens / n >= EPOCH_UPDATES),
        UPDATE_TOKENS[-1],
    )
    two_epochs = int(round(2 * epoch_tokens / tokens, -2))
    values: dict[str, object] = {
        "batching": {"tokens": tokens},
        "training": {"validate_every": min(500, max(100, two_epochs))},
    }
    if preset == SMALLEST and (
        epoch_tokens <= SHALLOW_EPOCH_TOKENS or seconds <= SHALLOW_SECONDS
    ):
        side = {"layers": 2, "dropout": 0.1}
        values["model"] = {"encoder": side, "decoder": side}
    return values


def describe(size: CorpusSize, recipe: Recipe) -> Iterator[str]:
    """Yield messages about the settings for a corpus of this size, and about its deficiencies."""
    if size.pairs < FEWEST_USEFUL_PAIRS:
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
    if size.pairs >= FEWEST_USEFUL_PAIRS:
        yield _comparison(size)


def _comparison(size: CorpusSize) -> str:
    """Return the scores on the corpus nearest in size, among those of the experiments."""
    corpora = package_toml("regard.training", "reference_scores.toml")["corpora"]

    def distance(corpus: dict[str, Any]) -> float:
        pair_ratio = size.pairs / corpus["pairs"]
        length_ratio = size.characters / corpus["characters"] / pair_ratio
        return abs(math.log(pair_ratio)) + abs(math.log(length_ratio))

    nearest = min(corpora, key=distance)
    if distance(nearest) > math.log(COMPARABLE_RATIO):
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
