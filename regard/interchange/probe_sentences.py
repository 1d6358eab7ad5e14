"""Real sentences to try an exported model on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.pairs import PairFiles, PairReader
from regard.data.text import clean, read_lines
from regard.data.vocabulary import Vocabulary
from regard.errors import DataError, RegardError
from regard.samples import korean_english
from regard.settings import read_toml

__all__ = ["MOST", "real_sentences"]

MOST = 64
"""Sentences that an export is tried on."""


def real_sentences(folder: Path, vocabulary: Vocabulary, source: Path | None = None) -> tuple[list[str], str]:
    """At most `MOST` source sentences, and where they are from: the file given; else the validation or training data of
    the run, where they still lie where they lay; else of the sample that ships with Regard the side whose letters the
    vocabulary knows better.
    """
    if source is not None:
        sentences = _spread(read_lines(source))
        if not sentences:
            raise DataError(f"{source}: every line is empty; give sentences of the model's source language")
        return sentences, str(source)
    for files in _data_of(folder):
        try:
            sentences = _spread([pair[0] for pair in PairReader(files)])
        except RegardError:
            continue  # moved, or changed since: the next will do
        if sentences:
            return sentences, files.names[0]
    sizes = {"train": MOST, "valid": 0, "test": 0, "recombination": 0, "length": 0}
    pairs = korean_english(sizes=sizes, short=1.0).splits["train"]
    sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
    return min(sides, key=lambda side: sum(map(vocabulary.unknown_share, side))), "the sample"


def _data_of(folder: Path) -> list[PairFiles]:
    """The files that a run was watched with and trained on."""
    recipe = folder / "train.toml"
    data = read_toml(recipe).get("data", {}) if recipe.is_file() else {}
    found = []
    for prefix in ("valid_", ""):
        named = {name: data.get(prefix + name) for name in ("source", "target", "pairs")}
        if named["pairs"] or (named["source"] and named["target"]):
            found.append(PairFiles(**named))
    return found


def _spread(lines: Sequence[str]) -> list[str]:
    """So many of the lines, from first to last."""
    kept = [line for line in map(clean, lines) if line]
    return kept[:: -(-len(kept) // MOST)] if kept else []
