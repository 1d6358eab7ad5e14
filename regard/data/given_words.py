"""Words of a line as it was given, which links between words count, in files and in answers.

They are what stands between spaces, tabs and other white space of ASCII, as for Moses, GIZA++ and
fast_align. A model reads the line cleaned: a no-break space parts words there, and words of
invisible characters alone are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from regard.common.lazy import lazy_pattern
from regard.data.text import clean

_SPACES = " \t\n\r\v\f"
WORD = lazy_pattern(f"[^{_SPACES}]+")
"""A word of a line as it was given."""
Link = tuple[int, int]


class GivenWords(NamedTuple):
    """The words of a line as it was given: how many, and in which of them each word of the clean
    line stands.

    `is_uneven`: `line.split(" ")` counts others, as there are leading or doubled spaces, or tabs.
    """

    total: int
    positions: Sequence[int]
    is_uneven: bool = False

    @property
    def is_clean(self) -> bool:
        """True if the words of the clean line are the same."""
        return self.total == len(self.positions) == len({*self.positions})


def given_words(line: str) -> GivenWords:
    """Find the words of a line as it was given."""
    words = WORD.findall(line)
    if line == clean(line):
        return GivenWords(len(words), range(len(words)))
    positions = [index for index, word in enumerate(words) for _ in clean(word).split()]
    return GivenWords(
        len(words), positions, bool(words) and line.rstrip(_SPACES).split(" ") != words
    )


def to_given(
    links: Iterable[Link], source: GivenWords, target: GivenWords | None = None
) -> list[Link]:
    """Return links between the words of clean lines as links between those of the lines as they
    were given.

    Without a `target`, words of that side are counted as they are.
    """
    if source.is_clean and (target is None or target.is_clean):
        return [*links]
    known = range(len(source.positions))
    return sorted(
        {
            (source.positions[s], t if target is None else target.positions[t])
            for s, t in links
            if s in known
        }
    )


def to_clean(
    links: Iterable[Link], source: GivenWords, target: GivenWords
) -> list[Link]:
    """Return links between the words of lines as they were given as links between those of the
    clean lines.
    """
    if source.is_clean and target.is_clean:
        return [*links]
    sides = _clean_words(source), _clean_words(target)
    return sorted(
        (s, t)
        for link in links
        for s in sides[0].get(link[0], ())
        for t in sides[1].get(link[1], ())
    )


def _clean_words(words: GivenWords) -> dict[int, list[int]]:
    """Return the words of the clean line that stand in each word of the line as it was given."""
    inside = dict[int, list[int]]()
    for index, position in enumerate(words.positions):
        inside.setdefault(position, []).append(index)
    return inside
