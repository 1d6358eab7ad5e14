"""Sentence pairs with their word alignment, and a corpus of them in splits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.data.text import write_lines

__all__ = ["AlignedPair", "Sample"]


@dataclass(frozen=True)
class AlignedPair:
    """A sentence, its translation, and which words correspond.

    `links` holds sorted pairs (source word, target word), counting the words between spaces from 0.
    """

    source: str
    target: str
    links: tuple[tuple[int, int], ...]

    def reversed(self) -> AlignedPair:
        """The same pair from the other side."""
        return AlignedPair(self.target, self.source, tuple(sorted((target, source) for source, target in self.links)))


@dataclass(frozen=True)
class Sample:
    """A corpus in named splits, such as "train", "valid" and "test"."""

    splits: dict[str, tuple[AlignedPair, ...]]

    def reversed(self) -> Sample:
        """The corpus for translating the other way."""
        return Sample({name: tuple(pair.reversed() for pair in pairs) for name, pairs in self.splits.items()})

    def write(self, folder: Path, source: str, target: str) -> None:
        """Write each split as lines of text: train.ko, train.en and train.align ("0-0 1-2"), if ko and en are given."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, pairs in self.splits.items():
            write_lines(folder / f"{name}.{source}", (pair.source for pair in pairs))
            write_lines(folder / f"{name}.{target}", (pair.target for pair in pairs))
            write_lines(folder / f"{name}.align", (" ".join(f"{i}-{j}" for i, j in pair.links) for pair in pairs))
