"""Probe sentences: real sentences on which an exported model is compared with the original."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.data.pairs import PairFiles, PairReader
from regard.data.text import clean, read_lines
from regard.data.vocabulary import Vocabulary
from regard.errors import DataError, RegardError
from regard.samples import korean_english
from regard.settings import read_toml

MAX_SENTENCES = 64
"""Sentences that an export is compared on, at most."""


def real_sentences(folder: Path, vocabulary: Vocabulary, source: Path | None = None) -> tuple[list[str], str]:
    """Return at most `MAX_SENTENCES` source sentences, and where they are from.

    They are from the file `source`; else from the run's validation or training data, if those are still there; else
    from the sample that ships with Regard, on the side whose characters the vocabulary knows better.
    """
    if source is not None:
        sentences = _spread(read_lines(source))
        if not sentences:
            raise DataError(f"{source}: every line is empty; give sentences of the model's source language")
        return sentences, str(source)
    for files in _data_files(folder):
        try:
            sentences = _spread([pair[0] for pair in PairReader(files)])
        except RegardError:
            continue  # moved or changed since; try the next
        if sentences:
            return sentences, files.names[0]
    sizes = {"train": MAX_SENTENCES, "valid": 0, "test": 0, "recombination": 0, "length": 0}
    pairs = korean_english(sizes=sizes, short=1.0).splits["train"]
    sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
    return min(sides, key=lambda side: sum(map(vocabulary.unknown_share, side))), "the sample"


def _data_files(folder: Path) -> list[PairFiles]:
    """Return the validation and training files of a run, as its recipe names them."""
    recipe = folder / "train.toml"
    data = read_toml(recipe).get("data", {}) if recipe.is_file() else {}
    files = []
    for prefix in ("valid_", ""):
        named = {name: data.get(prefix + name) for name in ("source", "target", "pairs")}
        if named["pairs"] or (named["source"] and named["target"]):
            files.append(PairFiles(named["source"], named["target"], named["pairs"]))
    return files


def _spread(lines: Sequence[str]) -> list[str]:
    """Take `MAX_SENTENCES` lines that are not empty, evenly spaced from first to last."""
    kept = [line for line in map(clean, lines) if line]
    return kept[:: -(-len(kept) // MAX_SENTENCES)] if kept else []
