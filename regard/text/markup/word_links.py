"""Word alignments of a sentence and its translation, completed: words without a link are linked by
position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass
class WordLinks:
    """Links of words. `sources`: the source words of each target word; `targets`: the reverse; both
    ascending.

    `is_given`: they were not guessed.
    """

    sources: list[list[int]]
    targets: list[list[int]]
    is_given: bool

    @classmethod
    def complete(
        cls,
        source: Sequence[str],
        target: Sequence[str],
        alignments: Sequence[tuple[int, int]] | None,
    ) -> WordLinks:
        """Take the links that are given, without any those of words that both texts have once, and
        fill gaps.

        A run of unlinked words is linked to the run of unlinked words that stands between the same
        neighbours.
        """
        links = cls([[] for _ in target], [[] for _ in source], alignments is not None)
        for word, position in sorted(
            set(_equal_words(source, target) if alignments is None else alignments)
        ):
            if (
                0 <= word < len(source)
                and 0 <= position < len(target)
                and target[position]
            ):
                links._add(word, position)
        links._fill()
        return links

    def _add(self, word: int, position: int) -> None:
        self.sources[position].append(word)
        self.targets[word].append(position)

    def _fill(self) -> None:
        free = [not linked for linked in self.sources]
        next_linked = _next_linked(free)
        count = len(self.targets)
        new = list[tuple[int, int]]()
        for start, end in _runs([not linked for linked in self.targets]):
            before = self.targets[start - 1] if start else [-1]
            after = self.targets[end] if end < count else [len(free)]
            low, high = (
                (before[-1], after[0])
                if before[-1] < after[0]
                else (after[-1], before[0])
            )
            if low < high and next_linked[low + 1] == high:
                new += _in_proportion(range(start, end), range(low + 1, high))
        for word, position in sorted(new):
            self._add(word, position)


def _equal_words(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """Return links between words that occur once in each text, such as names and numbers."""
    counts = Counter(target)
    once = Counter(source)
    positions = {
        word: position for position, word in enumerate(target) if counts[word] == 1
    }
    return [
        (index, positions[word])
        for index, word in enumerate(source)
        if once[word] == 1 and word in positions
    ]


def _next_linked(free: Sequence[bool]) -> list[int]:
    """Return, for each position and the one after the last, the first linked position from there
    on.
    """
    following = [len(free)] * (len(free) + 1)
    for position in reversed(range(len(free))):
        following[position] = following[position + 1] if free[position] else position
    return following


def _runs(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield where runs of true values begin and end."""
    for flag, group in groupby(range(len(flags)), flags.__getitem__):
        if flag:
            start, *rest = group
            yield start, start + len(rest) + 1


def _in_proportion(words: range, positions: range) -> Iterator[tuple[int, int]]:
    """Link two runs in order, each word of both at least once."""
    longer = max(len(words), len(positions)) if len(words) and len(positions) else 0
    for index in range(longer):
        yield (
            words[index * len(words) // longer],
            positions[index * len(positions) // longer],
        )
