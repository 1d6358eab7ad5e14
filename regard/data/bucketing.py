"""Length bucketing: put examples of similar length into one batch, up to a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.batch import Example, IntArray
from regard.data.images import SourcePixels


@dataclass(frozen=True)
class EpochStats:
    """Statistics of an epoch: batches, tokens of each side, and positions of each side, padding
    included.

    They are estimates if the corpus is so long that only its first buffer was counted.
    """

    batches: float
    tokens: tuple[float, float]
    positions: tuple[float, float]

    def padding(self) -> tuple[float, float]:
        """Return the share of padding among all source and all target positions."""
        source, target = (
            1 - tokens / total
            for tokens, total in zip(self.tokens, self.positions, strict=True)
        )
        return source, target

    def scaled(self, factor: float) -> EpochStats:
        """Return the statistics multiplied by a factor."""
        (a, b), (c, d) = self.tokens, self.positions
        return EpochStats(
            self.batches * factor, (a * factor, b * factor), (c * factor, d * factor)
        )

    def __add__(self, other: EpochStats) -> EpochStats:
        (a, b), (c, d) = self.tokens, self.positions
        (e, f), (g, h) = other.tokens, other.positions
        return EpochStats(self.batches + other.batches, (a + e, b + f), (c + g, d + h))


def make_buckets(examples: Sequence[Example], budget: int) -> Iterator[list[int]]:
    """Yield the indices of the examples of each batch: the larger padded side fits the `budget`.

    An example that exceeds the budget gets a batch of its own.
    """
    if isinstance(examples[0].source, SourcePixels):
        return _bucket_images(_image_extents(examples), budget)
    return _bucket_pairs(*_lengths(examples), budget)


def epoch_stats(examples: Sequence[Example], budget: int) -> EpochStats:
    """Return the statistics of the batches that `make_buckets` makes of these examples."""
    if isinstance(examples[0].source, SourcePixels):
        return _epoch_stats_of_images(_image_extents(examples), examples, budget)
    return epoch_stats_of_lengths(*_lengths(examples), budget)


def epoch_stats_of_lengths(
    sources: IntArray, targets: IntArray, budget: int
) -> EpochStats:
    """Like `epoch_stats`, from the lengths of both sides alone."""
    batches = list(_bucket_pairs(sources, targets, budget))
    source, target = (
        sum(float(side[batch].max()) * len(batch) for batch in batches)
        for side in (sources, targets)
    )
    return EpochStats(
        float(len(batches)),
        (float(sources.sum()), float(targets.sum())),
        (source, target),
    )


def _epoch_stats_of_images(
    extents: IntArray, examples: Sequence[Example], budget: int
) -> EpochStats:
    batches = list(_bucket_images(extents, budget))
    largest = [(extents[batch].max(0), len(batch)) for batch in batches]
    tokens = sum(len(target) for example in examples for target in example.targets)
    cells = float((extents[:, 0] * extents[:, 1]).sum())
    positions = [(float(n * X * Y), float(n * K * T)) for (X, Y, T, K), n in largest]
    source, target = (sum(side) for side in zip(*positions, strict=True))
    return EpochStats(float(len(batches)), (cells, float(tokens)), (source, target))


def _lengths(examples: Sequence[Example]) -> tuple[IntArray, IntArray]:
    source = np.array([len(example.source) for example in examples], dtype=np.int64)
    return source, np.array(
        [len(example.target) for example in examples], dtype=np.int64
    )


def _image_extents(examples: Sequence[Example]) -> IntArray:
    """Return the sizes of image examples: cell columns, cell rows, longest caption, captions;
    (examples, 4).
    """
    grids = [
        example.source.grid
        for example in examples
        if isinstance(example.source, SourcePixels)
    ]
    longest = [max(map(len, example.targets)) for example in examples]
    sizes = zip(grids, longest, examples, strict=True)
    return np.array(
        [(columns, rows, T, len(e.targets)) for (rows, columns), T, e in sizes],
        dtype=np.int64,
    )


def _bucket_images(extents: IntArray, budget: int) -> Iterator[list[int]]:
    """Group images of similar sizes, with equally many captions of similar lengths, while the
    larger side fits.
    """
    batch: list[int] = []
    largest = np.zeros(3, dtype=np.int64)
    columns, rows, longest, counts = extents.T
    for index in np.lexsort(
        (longest, columns, _size_class(rows, 1.5), _size_class(longest, 1.4), counts)
    ).tolist():
        *sizes, count = extents[index].tolist()
        grown = np.maximum(largest, sizes)
        size = int(max(grown[0] * grown[1], count * grown[2]))
        if batch and (size * (len(batch) + 1) > budget or count != counts[batch[-1]]):
            yield batch
            batch = []
            grown = np.array(sizes)
        largest = grown
        batch.append(index)
    yield batch


def _size_class(sizes: IntArray, factor: float) -> IntArray:
    """Return the same class number for sizes within about this factor of each other."""
    classes: IntArray = (np.log(sizes) / np.log(factor)).astype(np.int64)
    return classes


def _bucket_pairs(
    sources: IntArray, targets: IntArray, budget: int
) -> Iterator[list[int]]:
    """Group sentence pairs of similar lengths, while the larger padded side fits the budget."""
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
    """Sort by target length, then by source length, alternately up and down, so that neighbours
    stay similar.

    A pair whose source is unusually long (nine in ten exceed their target by less) is put among
    longer targets. At 2,048 tokens, on Multi30k (en-de), 0.7 % of target positions are padding and
    3.3 % of source positions.
    """
    surplus = sources - targets
    size = np.maximum(targets, sources - int(np.quantile(surplus, 0.9)))
    order: list[int] = np.lexsort(
        (np.where(size % 2 == 0, surplus, -surplus), size)
    ).tolist()
    return order
