"""Complete the word alignments of a sentence: words without a link are linked by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby


@dataclass
class WordLinks:
    """Links of words: the source words of each target word, and the reverse, in ascending order.

    `is_given` is false if the links were guessed.
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
        """Return the given links, completed. Without any, words that occur once in both texts are
        linked.

        A run of unlinked words is linked to the run of unlinked words between the same neighbours.
        """
        links = cls([[] for _ in target], [[] for _ in source], alignments is not None)
        if alignments is None:
            alignments = _equal_words(source, target)
        for word, position in sorted(set(alignments)):
            is_inside = 0 <= word < len(source) and 0 <= position < len(target)
            if is_inside and target[position]:
                links._add(word, position)
        links._fill()
        return links

    def _add(self, word: int, position: int) -> None:
        self.sources[position].append(word)
        self.targets[word].append(position)

    def _fill(self) -> None:
        unlinked = [*_runs([not linked for linked in self.targets])]
        if not unlinked:
            return
        _, next_linked = nearest([*map(bool, self.sources)])
        count = len(self.targets)
        new = list[tuple[int, int]]()
        for start, end in unlinked:
            before = self.targets[start - 1] if start else [-1]
            after = self.targets[end] if end < count else [len(self.sources)]
            low, high = before[-1], after[0]
            if low >= high:  # the neighbours have changed their order
                low, high = after[-1], before[0]
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


def nearest(flags: Sequence[bool]) -> tuple[list[int], list[int]]:
    """Return for each position, and for that after the last one, the last true flag before it (-1
    if there is none) and the first from it on (the number of flags if there is none).
    """
    count = len(flags)
    # Lists: a generator would be called for each word.
    before = [index if flag else -1 for index, flag in enumerate(flags)]
    after = [index if flags[index] else count for index in reversed(range(count))]
    return (
        [*accumulate(before, max, initial=-1)],
        [*accumulate(after, min, initial=count)][::-1],
    )


def _runs(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each run of true values."""
    for flag, group in groupby(range(len(flags)), flags.__getitem__):
        if flag:
            indices = list(group)
            yield indices[0], indices[-1] + 1


def _in_proportion(words: range, positions: range) -> Iterator[tuple[int, int]]:
    """Link two runs in order, so that each word of both has at least one link."""
    if not words or not positions:
        return
    longer = max(len(words), len(positions))
    for index in range(longer):
        yield (
            words[index * len(words) // longer],
            positions[index * len(positions) // longer],
        )
