"""Lines longer than any in training: cut at sentence ends, at spaces, and in the worst case inside words."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from regard.errors import LineWarning

__all__ = ["WHOLE", "LineSplitter"]

WHOLE = 2
"""A sentence so many times longer than the longest in training is still translated whole."""
_SENTENCE_END = re.compile(r"(?<=[.!?。！？…])[\"'”’)\]»]* |(?<=[。！？])[”’」』）]* ?")
_WORD = re.compile(r" *[^ ]+ ?")


@dataclass(frozen=True)
class LineSplitter:
    """Cuts lines that are longer than `longest` pieces; `length` counts those of a text."""

    length: Callable[[str], int]
    longest: int

    def cut(self, line: str, place: int) -> list[str]:
        """The parts of a long line; any other line whole. Put together again, with nothing between, they are the line.
        `place` is for warnings: where the line stands among those given.
        """
        if self.length(line) <= self.longest:
            return [line]
        sentences = self._packed(_split(line, _SENTENCE_END))
        return [part for sentence in sentences for part in self._parts(sentence, place)]

    def _packed(self, parts: Iterable[str]) -> list[str]:
        """Neighbours put together as long as they are no longer than `longest` pieces."""
        packed: list[str] = []
        for part in parts:
            if packed and self.length(packed[-1] + part) <= self.longest:
                packed[-1] += part
            else:
                packed.append(part)
        return packed

    def _parts(self, sentence: str, place: int) -> list[str]:
        """A sentence whole, with a warning if it is long; in parts, with another, where it is far too long."""
        length = self.length(sentence)
        parts, done = [sentence], "is translated whole, but may come out badly"
        if length > WHOLE * self.longest:
            words = [self._within(word) for word in _WORD.findall(sentence)]
            parts = self._packed([part for word in words for part in word])
            where = "at spaces" if all(len(word) == 1 for word in words) else "at spaces and inside words"
            done = f"was cut {where} into {len(parts)} parts, whose translations may not fit together"
        if length > self.longest:
            said = f"a sentence of {length:,} pieces is longer than any in training ({self.longest:,}); it {done}: "
            warnings.warn(LineWarning(place, f"{said}{sentence[:40]}…"), stacklevel=6)
        return parts

    def _within(self, word: str) -> list[str]:
        """A word, cut between characters where it is longer than `longest` pieces."""
        parts = []
        while word:
            end, beyond = 1, 2  # the first `end` characters fit (one must); the first `beyond` do not, or are not there
            while beyond <= len(word) and self.length(word[:beyond]) <= self.longest:
                end, beyond = beyond, 2 * beyond
            beyond = min(beyond, len(word) + 1)
            while beyond - end > 1:
                middle = (end + beyond) // 2
                end, beyond = (middle, beyond) if self.length(word[:middle]) <= self.longest else (end, middle)
            parts.append(word[:end])
            word = word[end:]
        return parts


def _split(line: str, end: re.Pattern[str]) -> list[str]:
    """The line cut after each match, nothing left out."""
    ends = [match.end() for match in end.finditer(line)]
    return [line[start:stop] for start, stop in zip([0, *ends], [*ends, len(line)], strict=True) if start < stop]
