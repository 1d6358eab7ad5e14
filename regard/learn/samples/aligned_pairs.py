"""Sentence pairs with gold word alignments, and corpora of such pairs in named splits."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.common.errors import UsageError
from regard.data.text import write_lines
from regard.data.word_alignments import format_pharaoh


@dataclass(frozen=True)
class AlignedPair:
    """A sentence, its translation, and their word alignment.

    `links` holds sorted pairs (source word, target word), counting the words between spaces from 0.
    """

    source: str
    target: str
    links: tuple[tuple[int, int], ...]

    def reversed(self) -> AlignedPair:
        """Return the pair for translating the other way."""
        return AlignedPair(
            self.target,
            self.source,
            tuple(sorted((target, source) for source, target in self.links)),
        )


@dataclass(frozen=True)
class Sample:
    """A corpus in named splits, such as "train", "valid" and "test"."""

    splits: dict[str, tuple[AlignedPair, ...]]

    def reversed(self) -> Sample:
        """Return the corpus for translating the other way."""
        splits = {}
        for name, pairs in self.splits.items():
            splits[name] = tuple(pair.reversed() for pair in pairs)
        return Sample(splits)

    def write(self, folder: Path, source: str, target: str) -> None:
        """Write each split as three line-aligned text files.

        With the language codes "ko" and "en", they are train.ko, train.en and train.align, which
        has word alignments such as "0-0 1-2".
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, pairs in self.splits.items():
            write_lines(folder / f"{name}.{source}", (pair.source for pair in pairs))
            write_lines(folder / f"{name}.{target}", (pair.target for pair in pairs))
            alignments = (format_pharaoh(pair.links) for pair in pairs)
            write_lines(folder / f"{name}.align", alignments)


def checked_sizes(
    defaults: Mapping[str, int], sizes: Mapping[str, int] | None
) -> dict[str, int]:
    """Return the sizes of all splits; raise UsageError for unknown splits and negative sizes."""
    causes = []
    for name, size in (sizes or {}).items():
        if name not in defaults:
            nearest = difflib.get_close_matches(name, defaults, 1)
            if nearest:
                hint = f"did you mean {nearest[0]!r}?"
            else:
                hint = f"known are {', '.join(defaults)}"
            causes.append(f"sizes: unknown split {name!r}; {hint}")
        elif size < 0:
            causes.append(f"sizes: {name} wanted 0 or more, got {size}")
    UsageError.raise_all(causes)
    return {**defaults, **(sizes or {})}
