"""Facts about a corpus that are found in one pass over its pairs: its size, its digests, and what
another corpus shares with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from regard.common.counting import counted
from regard.data.pairs import Pair, format_lines

_COMPARED = {
    "pairs": attrgetter("source", "target"),
    "sources": attrgetter("source"),
    "targets": attrgetter("target"),
}


@dataclass(frozen=True)
class CorpusFacts:
    """Facts for the model card: the number of pairs, and the SHA-256 of the lines of each side."""

    pairs: int
    source: str
    target: str


class CorpusDigest:
    """Computes the facts of a corpus in one pass over its pairs."""

    def __init__(self) -> None:
        self._pairs = 0
        self._source = hashlib.sha256()
        self._target = hashlib.sha256()

    def update(self, pairs: Iterable[Pair]) -> None:
        """Add pairs."""
        for pair in pairs:
            self._pairs += 1
            self._source.update(_line(pair.source))
            self._target.update(_line(pair.target))

    def facts(self) -> CorpusFacts:
        """Return the facts of all pairs added so far."""
        return CorpusFacts(
            self._pairs, self._source.hexdigest(), self._target.hexdigest()
        )


class Overlap:
    """Measures how much of another corpus is in the training data, in one pass over the training
    pairs.
    """

    def __init__(self, other: Iterable[Pair]) -> None:
        self._other = tuple(other)
        self._texts = {
            kind: {*map(text_of, self._other)} for kind, text_of in _COMPARED.items()
        }
        self._shared = {kind: set[object]() for kind in _COMPARED}

    def update(self, pairs: Sequence[Pair]) -> None:
        """Add training pairs."""
        for kind, text_of in _COMPARED.items():
            texts = self._texts[kind]
            self._shared[kind].update(texts.intersection(map(text_of, pairs)))

    def lines(self, name: str) -> list[str]:
        """Report the pairs, sources and targets that are in the training data, with their first
        line numbers.
        """
        total = len(self._other)
        if not any(self._shared.values()):
            return [
                f"{name}: none of its {counted(total, 'pair')} shares a side with train"
            ]
        report = []
        for kind, text_of in _COMPARED.items():
            shared = self._shared[kind]
            lines = [pair.line for pair in self._other if text_of(pair) in shared]
            verb = "is" if len(lines) == 1 else "are"
            report.append(
                f"{name}: {len(lines):,} of {total:,} {kind} {verb} also in train"
                f"{format_lines(lines)}"
            )
        return report


def texts_sha256(texts: Iterable[str]) -> str:
    """Return the SHA-256 of lines of text."""
    return hashlib.sha256(b"".join(map(_line, texts))).hexdigest()


def _line(text: str) -> bytes:
    return text.encode("utf-8", "replace") + b"\n"
