"""Parity of a converted model with the original: how far their numbers differ, and on how many sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.common.errors import ExportError


@dataclass(frozen=True)
class Parity:
    """Agreement of a converted model with the original on real sentences."""

    sentences: int
    source: str
    """Origin of the sentences: a file, or the sample."""
    measure: str
    """The numbers compared, such as "largest difference of logits"."""
    difference: float
    mismatches: Mapping[str, int]
    """The number of sentences for which the two disagree, by what they do: tokenisation, greedy search …"""

    def agreement(self, name: str) -> float:
        """Return the share of sentences for which the two agree."""
        return 1 - self.mismatches[name] / self.sentences

    def __str__(self) -> str:
        counts = ", ".join(f"{count} by {name}" for name, count in self.mismatches.items())
        return f"{self.sentences} sentences of {self.source}: {self.measure} {self.difference:.2g}; different: {counts}"


def check_new(folder: Path) -> None:
    """Raise ExportError if a folder to be written holds something already."""
    if folder.exists() and any(folder.iterdir()):
        raise ExportError(f"{folder}: there is something already; choose a new folder, or remove this one")
