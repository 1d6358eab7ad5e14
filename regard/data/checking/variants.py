"""Several translations in one cell of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from regard.data.checking.placeholders import without_placeholders
from regard.data.pairs import Pair

LONGEST = 60
"""Characters of the longest translation that may be one of several in a cell."""
SEPARATORS = {
    " / ": (r"\s/\s", 0.8),
    "|": (r"\|", 0.8),
    "1.": (r"(?:^|\s)\d[.)]\s", 0.8),
    ";": (";", 1.0),
    "/": ("/", 1.4),
    ",": (r",\s", 1.8),
}
"""Signs between variants of a translation: their pattern, and how long a cell of several has to be,
as a share of the usual length of one, since some are in other texts too.
"""
USUAL = 0.01
"""Share of the pairs in which only the target has a sign, from which on it is usual."""
USUAL_LENGTH = 1.4
"""Least share of the usual length if the sign is usual."""
_PATTERNS = {name: re.compile(pattern) for name, (pattern, _) in SEPARATORS.items()}


@dataclass(frozen=True)
class Variants:
    """Finds cells with several translations, by the length and the signs that are usual."""

    ratio: float  # characters of a target for each of its source
    usual: frozenset[str]  # separators

    @classmethod
    def learn(cls, pairs: Sequence[Pair]) -> Variants:
        """Learn from pairs of which no side is empty."""
        ratio = median(len(pair.target) / len(pair.source) for pair in pairs)
        usual = {
            name
            for name in SEPARATORS
            if sum(_has_alone(pair, name) for pair in pairs) > USUAL * len(pairs)
        }
        return cls(ratio, frozenset(usual))

    def first_of(self, pair: Pair) -> str:
        """Return the first of several translations in one cell, if each could be the whole; empty
        if there is one.
        """
        wanted = self.ratio * len(pair.source)
        for name, pattern in _PATTERNS.items():
            if not _has_alone(pair, name) or (name == "," and name in self.usual):
                continue
            stripped = map(str.strip, pattern.split(pair.target))
            parts = list[str](filter(None, stripped))
            sizes = [*map(len, parts)]
            _, least = SEPARATORS[name]
            if name in self.usual:
                least = max(least, USUAL_LENGTH)
            if (
                len(sizes) > 1
                and max(sizes) <= min(LONGEST, 2.5 * min(sizes))
                and min(sizes) >= 0.3 * wanted
                and sum(sizes) >= least * wanted
                and all(map(_has_words, parts))
            ):
                return parts[0]
        return ""


def _has_words(text: str) -> bool:
    return any(map(str.isalpha, without_placeholders(text)))


def _has_alone(pair: Pair, name: str) -> bool:
    """Return whether only the target has a separator."""
    pattern = _PATTERNS[name]
    return bool(pattern.search(pair.target)) and not pattern.search(pair.source)
