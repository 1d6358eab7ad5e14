"""Probe sentences: real sentences on which an exported model is compared with the original."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from regard.common.errors import DataError, RegardError, UsageError
from regard.common.reading import check_links
from regard.common.settings import read_toml
from regard.data.file_formats import PairFiles, PairReader
from regard.data.text import clean, read_lines
from regard.data.vocabulary import Vocabulary

MAX_SENTENCES = 64
"""Largest number of sentences that an export is compared on."""
SAMPLE = "the sample"
SAMPLE_LANGUAGES = ("ko", "en")
DRAWN = "tokens drawn from its vocabulary"
"""Origin of the sentences if there are no real ones."""
HELD_OUT = "valid.tsv"
"""File in the folder of a run with the pairs that are held out for validation."""
MAX_UNKNOWN = 0.2
"""Largest share of characters of the sample that are unknown to a vocabulary compared on it."""


def real_sentences(
    folder: Path, vocabulary: Vocabulary, source: Path | None = None, language: str = ""
) -> tuple[list[str], str]:
    """Return at most `MAX_SENTENCES` source sentences, and their origin.

    They are taken from the file `source`, else from the run's validation or training data if these
    are in its folder, else from the sample of Regard. The side of the sample is that of `language`,
    or the one whose characters the vocabulary knows better. If it knows neither side, the sentences
    are random tokens of the vocabulary.
    """
    if source is not None:
        sentences = _spread(read_lines(source))
        if not sentences:
            raise DataError(
                f"{source}: every line is empty; give sentences of the model's source language"
            )
        return sentences, str(source)
    for files in _data_files(folder):
        try:
            sentences = _spread([pair[0] for pair in PairReader(files)])
        except RegardError:
            continue  # moved or changed since; try the next
        if sentences:
            return sentences, files.names[0]
    lines = (
        (Path(__file__).parent / "assets" / "sample.tsv")
        .read_text("utf-8")
        .splitlines()[:MAX_SENTENCES]
    )
    sides = (
        [line.split("\t")[0] for line in lines],
        [line.split("\t")[1] for line in lines],
    )
    if language in SAMPLE_LANGUAGES:
        return sides[SAMPLE_LANGUAGES.index(language)], SAMPLE
    unknown = [sum(map(vocabulary.unknown_share, side)) / len(side) for side in sides]
    if min(unknown) <= MAX_UNKNOWN:
        return sides[unknown.index(min(unknown))], SAMPLE
    drawn = _drawn(vocabulary)
    return (drawn, DRAWN) if drawn else (sides[0], SAMPLE)


def _drawn(vocabulary: Vocabulary) -> list[str]:
    """Return lines of random tokens made of known letters, the same for the same vocabulary."""
    chance = random.Random(0)
    surfaces = [
        surface.decode(errors="replace") for surface in vocabulary.surface_bytes
    ]
    known = [
        token
        for token, text in enumerate(surfaces)
        if text.strip() and text.isprintable() and "\ufffd" not in text
    ]
    lines = (
        [
            vocabulary.decode(chance.choices(known, k=1 + n % 16))
            for n in range(MAX_SENTENCES)
        ]
        if known
        else []
    )
    return _spread(lines)


def _data_files(folder: Path) -> list[PairFiles]:
    """Return the held-out file of a run, and the files of its recipe that are in its folder.

    The author of the folder may have named any file of this machine in the recipe. Others are not
    opened unless the user names them as `source`.
    """
    recipe = folder / "train.toml"
    check_links(folder, recipe.name, HELD_OUT)
    data = read_toml(recipe).get("data", {}) if recipe.is_file() else {}
    if not isinstance(data, dict):
        return []
    inside = Path(os.path.realpath(folder))
    files = (
        [PairFiles(pairs=folder / HELD_OUT)] if (folder / HELD_OUT).is_file() else []
    )
    for prefix in ("valid_", ""):
        names = [
            data.get(prefix + name) or None for name in ("source", "target", "pairs")
        ]
        paths = [name for name in names if name]
        if not all(isinstance(name, str) and "\0" not in name for name in paths):
            continue
        if not all(
            Path(os.path.realpath(name)).is_relative_to(inside) for name in paths
        ):
            continue
        with suppress(UsageError):  # as for files that the recipe does not name
            source, target, pairs = names
            columns = f"{data.get('columns') or ''}"
            files.append(PairFiles(source, target, pairs, columns=columns))
    return files


def _spread(lines: Sequence[str]) -> list[str]:
    """Return `MAX_SENTENCES` lines that are not empty, evenly spaced from first to last."""
    kept = [line for line in map(clean, lines) if line]
    return kept[:: -(-len(kept) // MAX_SENTENCES)] if kept else []
