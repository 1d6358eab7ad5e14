"""Several corpora in one stream: each batch comes from one of them, drawn by its weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce

import numpy as np

from regard.data.batching import BatchPlan, BatchSource, BatchStream, Position
from regard.data.bucketing import EpochStats
from regard.errors import ConfigurationError

__all__ = ["Mixture"]


class Mixture(BatchSource):
    """Batches of several corpora, in shares as their weights; each corpus goes through epochs of its own.

    Which corpus a batch comes from is decided by the seed and by how many batches came before.
    """

    def __init__(self, parts: Sequence[BatchStream], weights: Sequence[float], seed: int) -> None:
        """All parts cut updates into equally many batches. Raises ConfigurationError for weights that cannot be."""
        wrong = [weight for weight in weights if not 0 < weight < float("inf")]
        if wrong or len(parts) != len(weights) or not parts:
            raise ConfigurationError(
                f"a mixture of {len(parts)} corpora wants as many weights above 0, got {list(weights)}; give each one"
            )
        self.streams, self.seed = tuple(parts), seed
        self.per_update = parts[0].per_update
        self.shares = np.array(weights) / sum(weights)
        assert {part.per_update for part in parts} == {self.per_update}, (
            "an update is cut into the same number of batches"
        )

    @cached_property
    def epoch_stats(self) -> EpochStats:
        """What comes while every corpus is read at least once: how much of each, and what is padding."""
        each = [part.epoch_stats for part in self.streams]
        length = max(some.batches / share for some, share in zip(each, self.shares, strict=True))
        read = [float(length * share / some.batches) for some, share in zip(each, self.shares, strict=True)]
        return reduce(EpochStats.__add__, (some.scaled(epochs) for some, epochs in zip(each, read, strict=True)))

    def plans(self, position: Position) -> Iterator[tuple[Position, BatchPlan]]:
        """Batches without end, each with the position to go on from after it."""
        places = [*(position.parts or [Position()] * len(self.streams))]
        if len(places) != len(self.streams):
            raise ConfigurationError(
                f"data.mix: the run stands in {len(places)} corpora and the recipe has {len(self.streams)}; "
                "give those it began with, or train anew with another --out"
            )
        streams = [part.plans(where) for part, where in zip(self.streams, places, strict=True)]
        number = position.batch
        while True:
            drawn = self._draw_corpus(number)
            places[drawn], plan = next(streams[drawn])
            number += 1
            yield Position(min(where.epoch for where in places), 0, number, tuple(places)), plan

    def epoch(self, n: int) -> list[BatchPlan]:
        """Epoch n of each corpus, one after another."""
        return [plan for part in self.streams for plan in part.epoch(n)]

    def _draw_corpus(self, number: int) -> int:
        """Which corpus the batch of this number comes from."""
        chance = np.random.Generator(np.random.PCG64([self.seed, number, 0, 1])).random()
        return min(int(np.searchsorted(np.cumsum(self.shares), chance, side="right")), len(self.streams) - 1)
