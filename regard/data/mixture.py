"""Mixture of corpora in one batch stream: each batch comes from one corpus, drawn by its weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce

import numpy as np

from regard.common.errors import ConfigurationError
from regard.data.batch_stream import BatchPlan, BatchSource, BatchStream, Position
from regard.data.bucketing import EpochStats


class Mixture(BatchSource):
    """Batches of several corpora in proportion to their weights; each corpus has its own epochs.

    The seed and the number of batches so far determine the corpus of the next batch.
    """

    def __init__(
        self, streams: Sequence[BatchStream], weights: Sequence[float], seed: int
    ) -> None:
        """Mix the streams, which must have equally many micro-batches per update.

        Raises ConfigurationError for bad weights.
        """
        are_positive = all(0 < weight < float("inf") for weight in weights)
        if not are_positive or len(streams) != len(weights) or not streams:
            raise ConfigurationError(
                f"a mixture of {len(streams)} corpora needs as many weights above 0, got "
                f"{list(weights)}; give one each"
            )
        self.streams = tuple(streams)
        self.seed = seed
        self.per_update = streams[0].per_update
        self.shares = np.array(weights) / sum(weights)
        assert {stream.per_update for stream in streams} == {self.per_update}, (
            "all streams have the same number of micro-batches per update"
        )

    @cached_property
    def epoch_stats(self) -> EpochStats:
        """Statistics of an epoch, in which every corpus is read at least once."""
        corpora = [stream.epoch_stats for stream in self.streams]
        batches = max(
            stats.batches / share
            for stats, share in zip(corpora, self.shares, strict=True)
        )
        # A corpus with a large share is read several times in that many batches.
        scaled = [
            stats.scaled(float(batches * share / stats.batches))
            for stats, share in zip(corpora, self.shares, strict=True)
        ]
        return reduce(EpochStats.__add__, scaled)

    def plans(self, position: Position) -> Iterator[tuple[Position, BatchPlan]]:
        """Yield micro-batches without end, each with the position after it."""
        positions = [*(position.parts or [Position()] * len(self.streams))]
        if len(positions) != len(self.streams):
            raise ConfigurationError(
                f"data.mix: the run has positions in {len(positions)} corpora and the recipe has "
                f"{len(self.streams)}; give those it began with, or train anew with another `out=`"
            )
        plans = [
            stream.plans(start)
            for stream, start in zip(self.streams, positions, strict=True)
        ]
        number = position.batch
        while True:
            corpus = self._draw_corpus(number)
            positions[corpus], plan = next(plans[corpus])
            number += 1
            epoch = min(part.epoch for part in positions)
            yield Position(epoch, 0, number, tuple(positions)), plan

    def epoch(self, n: int) -> list[BatchPlan]:
        """Return epoch n of each corpus, one after another."""
        return [plan for stream in self.streams for plan in stream.epoch(n)]

    def _draw_corpus(self, number: int) -> int:
        """Draw the corpus of the batch of this number; return its index."""
        generator = np.random.Generator(np.random.PCG64([self.seed, number, 0, 1]))
        ends = np.cumsum(self.shares)
        corpus = int(np.searchsorted(ends, generator.random(), side="right"))
        # Rounding may leave the last end below 1.
        return min(corpus, len(self.streams) - 1)
