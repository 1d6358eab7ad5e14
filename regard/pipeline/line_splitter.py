"""Split lines longer than any source in training: at sentence ends, else at spaces, else inside words."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from regard.errors import LineWarning

_WHOLE = 2
"""A sentence up to this many times longer than the longest source in training is still translated whole."""
_SENTENCE_END = re.compile(r"(?<=[.!?。！？…])[\"'”’)\]»]* |(?<=[。！？])[”’」』）]* ?")
_WORD = re.compile(r" *[^ ]+ ?")


@dataclass(frozen=True)
class LineSplitter:
    """Splits lines of more than `longest` tokens; `length` counts the tokens of a text."""

    length: Callable[[str], int]
    longest: int

    def split(self, line: str, index: int) -> list[str]:
        """Return the parts of a line; concatenated, they are the line. `index` is the line's, for warnings."""
        if self.length(line) <= self.longest:
            return [line]
        sentences = self._merge(_split_after(line, _SENTENCE_END))
        return [part for sentence in sentences for part in self._split_sentence(sentence, index)]

    def _merge(self, parts: Iterable[str]) -> list[str]:
        """Merge neighbours as long as they have at most `longest` tokens together."""
        merged: list[str] = []
        for part in parts:
            if merged and self.length(merged[-1] + part) <= self.longest:
                merged[-1] += part
            else:
                merged.append(part)
        return merged

    def _split_sentence(self, sentence: str, index: int) -> list[str]:
        """Leave a sentence whole up to `_WHOLE` times `longest` tokens, else split it at spaces; warn if it is long."""
        length = self.length(sentence)
        if length <= self.longest:
            return [sentence]
        parts, outcome = [sentence], "is translated whole, but may come out badly"
        if length > _WHOLE * self.longest:
            words = [self._split_word(word) for word in _WORD.findall(sentence)]
            parts = self._merge([part for word in words for part in word])
            where = "at spaces" if all(len(word) == 1 for word in words) else "at spaces and inside words"
            outcome = f"was split {where} into {len(parts)} parts, whose translations may not fit together"
        message = f"a sentence of {length:,} tokens is longer than any in training ({self.longest:,}); it {outcome}"
        warnings.warn(LineWarning(index, f"{message}: {sentence[:40]}…"), stacklevel=6)
        return parts

    def _split_word(self, word: str) -> list[str]:
        """Split a word of more than `longest` tokens between characters, each part as long as it can be."""
        parts = []
        while word:
            fits, exceeds = 1, 2  # prefix lengths: one character always counts as fitting; doubling, then bisection
            while exceeds <= len(word) and self.length(word[:exceeds]) <= self.longest:
                fits, exceeds = exceeds, 2 * exceeds
            exceeds = min(exceeds, len(word) + 1)
            while exceeds - fits > 1:
                middle = (fits + exceeds) // 2
                fits, exceeds = (middle, exceeds) if self.length(word[:middle]) <= self.longest else (fits, middle)
            parts.append(word[:fits])
            word = word[fits:]
        return parts


def _split_after(line: str, end: re.Pattern[str]) -> list[str]:
    """Split a line after each match, leaving nothing out."""
    ends = [match.end() for match in end.finditer(line)]
    return [line[start:stop] for start, stop in zip([0, *ends], [*ends, len(line)], strict=True) if start < stop]
