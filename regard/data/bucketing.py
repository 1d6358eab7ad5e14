"""Length bucketing: put examples of similar length into one batch, up to a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.batch import Example, IntArray
from regard.data.images import SourcePixels


@dataclass(frozen=True)
class EpochStats:
    """Statistics of an epoch.

    They are estimates if the corpus is so long that only its first buffer was counted.
    """

    batches: float
    tokens: tuple[float, float]  # of source and target
    positions: tuple[float, float]  # of source and target, with padding

    def padding(self) -> tuple[float, float]:
        """Return the share of padding among all source and all target positions."""
        source = 1 - self.tokens[0] / self.positions[0]
        target = 1 - self.tokens[1] / self.positions[1]
        return source, target

    def scaled(self, factor: float) -> EpochStats:
        """Return the statistics multiplied by a factor."""
        return EpochStats(
            self.batches * factor,
            (self.tokens[0] * factor, self.tokens[1] * factor),
            (self.positions[0] * factor, self.positions[1] * factor),
        )

    def __add__(self, other: EpochStats) -> EpochStats:
        return EpochStats(
            self.batches + other.batches,
            (self.tokens[0] + other.tokens[0], self.tokens[1] + other.tokens[1]),
            (
                self.positions[0] + other.positions[0],
                self.positions[1] + other.positions[1],
            ),
        )


def make_buckets(examples: Sequence[Example], budget: int) -> Iterator[list[int]]:
    """Yield the indices of the examples of each batch; the larger padded side of a batch has at
    most `budget` tokens.

    An example that exceeds the budget gets a batch of its own.
    """
    if isinstance(examples[0].source, SourcePixels):
        return _bucket_images(_image_extents(examples), budget)
    return _bucket_pairs(*_lengths(examples), budget)


def epoch_stats(examples: Sequence[Example], budget: int) -> EpochStats:
    """Return the statistics of the batches into which `make_buckets` divides these examples."""
    if isinstance(examples[0].source, SourcePixels):
        return _epoch_stats_of_images(_image_extents(examples), examples, budget)
    return epoch_stats_of_lengths(*_lengths(examples), budget)


def epoch_stats_of_lengths(
    sources: IntArray, targets: IntArray, budget: int
) -> EpochStats:
    """Return the same as `epoch_stats`, from the lengths of both sides alone."""
    batches = list(_bucket_pairs(sources, targets, budget))
    source_positions = 0.0
    target_positions = 0.0
    for batch in batches:
        source_positions += float(sources[batch].max()) * len(batch)
        target_positions += float(targets[batch].max()) * len(batch)
    return EpochStats(
        float(len(batches)),
        (float(sources.sum()), float(targets.sum())),
        (source_positions, target_positions),
    )


def _epoch_stats_of_images(
    extents: IntArray, examples: Sequence[Example], budget: int
) -> EpochStats:
    batches = list(_bucket_images(extents, budget))
    cell_positions = 0.0
    target_positions = 0.0
    for batch in batches:
        columns, rows, length, captions = extents[batch].max(0)
        cell_positions += float(len(batch) * columns * rows)
        target_positions += float(len(batch) * captions * length)

    cells = float((extents[:, 0] * extents[:, 1]).sum())
    tokens = sum(len(target) for example in examples for target in example.targets)
    return EpochStats(
        float(len(batches)),
        (cells, float(tokens)),
        (cell_positions, target_positions),
    )


def _lengths(examples: Sequence[Example]) -> tuple[IntArray, IntArray]:
    sources = np.array([len(example.source) for example in examples], dtype=np.int64)
    targets = np.array([len(example.target) for example in examples], dtype=np.int64)
    return sources, targets


def _image_extents(examples: Sequence[Example]) -> IntArray:
    """Return the sizes of image examples (examples, 4): columns and rows of cells, the length of
    the longest caption, and the number of captions.
    """
    extents = []
    for example in examples:
        assert isinstance(example.source, SourcePixels), "all sources are images"
        rows, columns = example.source.grid
        longest = max(map(len, example.targets))
        extents.append((columns, rows, longest, len(example.targets)))
    return np.array(extents, dtype=np.int64)


def _bucket_images(extents: IntArray, budget: int) -> Iterator[list[int]]:
    """Group images of similar sizes, with equally many captions of similar lengths, as long as the
    larger padded side fits the budget.
    """
    columns, rows, longest, counts = extents.T
    row_classes = _size_class(rows, 1.5)
    length_classes = _size_class(longest, 1.4)
    # The last key is the primary one.
    order = np.lexsort((longest, columns, row_classes, length_classes, counts))

    batch: list[int] = []
    largest = np.zeros(3, dtype=np.int64)
    for index in order.tolist():
        *sizes, count = extents[index].tolist()
        grown = np.maximum(largest, sizes)
        tokens = int(max(grown[0] * grown[1], count * grown[2]))
        exceeds_budget = tokens * (len(batch) + 1) > budget
        if batch and (exceeds_budget or count != counts[batch[-1]]):
            yield batch
            batch = []
            grown = np.array(sizes)
        largest = grown
        batch.append(index)
    yield batch


def _size_class(sizes: IntArray, factor: float) -> IntArray:
    """Return a class number for each size; sizes in a class differ by at most this factor."""
    classes: IntArray = (np.log(sizes) / np.log(factor)).astype(np.int64)
    return classes


def _bucket_pairs(
    sources: IntArray, targets: IntArray, budget: int
) -> Iterator[list[int]]:
    """Group sentence pairs of similar lengths, as long as the larger padded side fits the
    budget.
    """
    batch: list[int] = []
    longest = 0
    larger = np.maximum(sources, targets).tolist()
    for index in _sort_by_length(sources, targets):
        longest = max(longest, larger[index])
        if batch and longest * (len(batch) + 1) > budget:
            yield batch
            batch = []
            longest = larger[index]
        batch.append(index)
    yield batch


def _sort_by_length(sources: IntArray, targets: IntArray) -> list[int]:
    """Sort pairs by target length, then by source length, so that neighbours are similar.

    Source lengths ascend for even target lengths and descend for odd ones. A pair whose source
    exceeds its target by more than in nine of ten pairs is sorted among longer targets. With
    batches of 2,048 tokens, on Multi30k (en-de), 0.7 % of target positions and 3.3 % of source
    positions are padding.
    """
    surplus = sources - targets
    size = np.maximum(targets, sources - int(np.quantile(surplus, 0.9)))
    alternating = np.where(size % 2 == 0, surplus, -surplus)
    order: list[int] = np.lexsort((alternating, size)).tolist()
    return order
