"""Small corpora with duplicates, empty and long lines, and several scripts."""

from __future__ import annotations

import random
from pathlib import Path

from regard.data.corpus import Corpus
from regard.data.pairs import CorpusReport, Pair
from regard.data.text import write_lines

WORDS = "ein Hund läuft über die grüne Wiese zwei Männer reden auf der Straße 개가 달린다 빨간 공 😀 œuvre".split()  # noqa: SIM905


def sentences(
    count: int, seed: int = 0, longest: int = 12
) -> tuple[list[str], list[str]]:
    """Return `count` sources and targets, with repeated pairs and repeated sides."""
    rng = random.Random(seed)
    sources = [
        " ".join(rng.choices(WORDS, k=rng.randint(1, longest))) for _ in range(count)
    ]
    targets = [
        " ".join(rng.choices(WORDS, k=1 + source.count(" "))).upper()
        for source in sources
    ]
    for index in range(7, count, 23):
        sources[index], targets[index] = sources[index - 5], targets[index - 5]
    return sources, targets


def noisy_sentences(count: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Return sentences with lines that filters drop: empty, too long, or of very unequal
    lengths.
    """
    sources, targets = sentences(count, seed)
    for index, text in (
        (3, ""),
        (11, "w " * 300),
        (12, "x" * 90),
        (count - 1, " \u00a0 "),
    ):
        sources[index % count] = text
    return sources, targets


def write_corpus(
    folder: Path, count: int, seed: int = 0, suffix: str = "", name: str = "a"
) -> dict[str, str]:
    """Write a training corpus of two files and return its settings."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {
        side: str(folder / f"{name}.{side}{suffix}") for side in ("source", "target")
    }
    for path, lines in zip(paths.values(), noisy_sentences(count, seed), strict=True):
        write_lines(path, lines)
    return paths


def corpus(count: int, seed: int = 0) -> Corpus:
    """Return clean pairs as a corpus in memory."""
    rows = zip(*sentences(count, seed), strict=True)
    pairs = tuple(
        Pair(source, target, line) for line, (source, target) in enumerate(rows, 1)
    )
    return Corpus(pairs, CorpusReport("train", ("a", "b"), count, count))
