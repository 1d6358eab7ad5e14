"""Words of a line before cleaning: word alignments count these, in files and in answers.

Words are separated by ASCII white space, as in Moses, GIZA++ and fast_align. A model reads the
cleaned line, in which a no-break space also separates words, and words of invisible characters
alone are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from regard.common.lazy import lazy_pattern
from regard.data.text import clean

_SPACES = " \t\n\r\v\f"
WORD = lazy_pattern(f"[^{_SPACES}]+")
"""Matches a word of a line before cleaning."""
Link = tuple[int, int]
"""Indices of a source word and a target word."""


class GivenWords(NamedTuple):
    """The words of a line before cleaning, and how the words of the cleaned line map to them."""

    total: int
    """Number of words before cleaning."""
    positions: Sequence[int]
    """For each word of the cleaned line, the index of the word before cleaning that contains it."""
    is_uneven: bool = False
    """True if `line.split(" ")` gives other words, because of leading or doubled spaces or tabs."""

    @property
    def is_clean(self) -> bool:
        """True if the cleaned line has the same words."""
        return self.total == len(self.positions) == len({*self.positions})


def given_words(line: str) -> GivenWords:
    """Find the words of a line before cleaning."""
    words = WORD.findall(line)
    if line == clean(line):
        return GivenWords(len(words), range(len(words)))
    positions = [index for index, word in enumerate(words) for _ in clean(word).split()]
    is_uneven = bool(words) and line.rstrip(_SPACES).split(" ") != words
    return GivenWords(len(words), positions, is_uneven)


def to_given(
    links: Iterable[Link], source: GivenWords, target: GivenWords | None = None
) -> list[Link]:
    """Convert links between words of cleaned lines to links between the words before cleaning.

    If `target` is None, the indices of target words stay as they are.
    """
    if source.is_clean and (target is None or target.is_clean):
        return [*links]
    converted = set()
    for s, t in links:
        if 0 <= s < len(source.positions):
            target_index = t if target is None else target.positions[t]
            converted.add((source.positions[s], target_index))
    return sorted(converted)


def to_clean(
    links: Iterable[Link], source: GivenWords, target: GivenWords
) -> list[Link]:
    """Convert links between words before cleaning to links between the words of cleaned lines."""
    if source.is_clean and target.is_clean:
        return [*links]
    clean_sources = _clean_words(source)
    clean_targets = _clean_words(target)
    return sorted(
        (clean_s, clean_t)
        for s, t in links
        for clean_s in clean_sources.get(s, ())
        for clean_t in clean_targets.get(t, ())
    )


def _clean_words(words: GivenWords) -> dict[int, list[int]]:
    """Return the indices of cleaned words by the word before cleaning that contains them."""
    clean_words = dict[int, list[int]]()
    for index, position in enumerate(words.positions):
        clean_words.setdefault(position, []).append(index)
    return clean_words
