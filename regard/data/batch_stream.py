"""Batch stream for training: shuffle, bucket by length, cut updates into micro-batches (gradient
accumulation).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from regard.common.errors import DataError
from regard.common.settings import COUNT, PARTS, Settings
from regard.data.batch import Example, Resample, TrainingBatch, collate
from regard.data.bucketing import (
    EpochStats,
    epoch_stats,
    epoch_stats_of_lengths,
    make_buckets,
)
from regard.data.shards import Shards

BLOCKS = 2_000_000
"""Most blocks of neighbouring examples that an epoch shuffles; a corpus of no more examples has one
in each block.
"""

CHUNK = 10_000
"""Examples that are read and tokenised again at once: half a second, so that training never waits
for a whole buffer.

A smaller number would cost more in all, since frequent words are segmented a few times for each
chunk.
"""


class BatchingSettings(Settings):
    """Settings of batching: the size of an update, its micro-batches, bucketing, and subword
    dropout.
    """

    tokens: int = Field(
        4096,
        ge=1,
        le=COUNT,
        description="Size of an update: tokens on its larger side, ends of sentence and padding "
        "included.",
    )
    micro_batches: Annotated[int, Field(ge=1, le=PARTS)] | Literal["auto"] = Field(
        "auto",
        description="Micro-batches of an update, each computed by its own thread or process, or "
        "one after another; more need less memory and padding. auto: one for each "
        "processor core up to four, one on a GPU; the number is recorded.",
    )
    buffer_size: int = Field(
        100_000,
        ge=1,
        le=COUNT,
        description="Sentences that are sorted by length at once.",
    )
    subword_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Tokenise again in each epoch, leaving out this share of BPE's merges "
        "(BPE-dropout).",
    )

    def resolved(self, workers: int) -> BatchingSettings:
        """Return the settings with "auto" replaced by the number for so many cores or processes."""
        return (
            self.with_values(micro_batches=max(1, workers))
            if self.micro_batches == "auto"
            else self
        )


@dataclass(frozen=True)
class BatchPlan:
    """A micro-batch before it becomes tensors: its examples and their indices in the corpus."""

    examples: tuple[Example, ...]
    indices: tuple[int, ...]

    @cached_property
    def tokens(self) -> int:
        """Target tokens to predict."""
        return sum(
            len(target) for example in self.examples for target in example.targets
        )

    def batch(self) -> TrainingBatch:
        """Collate the examples into tensors."""
        return collate(self.examples, self.indices)


@dataclass(frozen=True)
class Position:
    """Position in the data: the next batch, counted from 0 within its buffer, and that buffer
    within its epoch.

    In a mixture `parts` are the positions in each corpus, `batch` is the number of batches drawn,
    and `epoch` how often every corpus has been read completely.
    """

    epoch: int = 0
    buffer: int = 0
    batch: int = 0
    parts: Sequence[Position] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))  # JSON has lists

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Position:
        """Make a position from the plain values that `dataclasses.asdict` gave."""
        return cls(
            **{**values, "parts": [cls.from_json(part) for part in values["parts"]]}
        )


@dataclass(frozen=True)
class Update:
    """The micro-batches whose gradients are accumulated for one update, and the position after
    them.
    """

    plans: tuple[BatchPlan, ...]
    after: Position

    @property
    def tokens(self) -> int:
        """Target tokens to predict in all micro-batches."""
        return sum(plan.tokens for plan in self.plans)


class BatchSource(ABC):
    """An endless source of updates, from any position on."""

    per_update: int
    """Micro-batches in an update."""

    def updates(self, position: Position | None = None) -> Iterator[Update]:
        """Yield updates without end from `position` on."""
        stream = self.plans(position or Position())
        while True:
            group = list(islice(stream, self.per_update))
            yield Update(tuple(plan for _, plan in group), group[-1][0])

    def padding(self) -> tuple[float, float]:
        """Return the share of padding among all source and all target positions of epoch 0."""
        return self.epoch_stats.padding()

    @property
    @abstractmethod
    def epoch_stats(self) -> EpochStats:
        """Statistics of epoch 0."""

    @abstractmethod
    def plans(self, position: Position) -> Iterator[tuple[Position, BatchPlan]]:
        """Yield micro-batches without end, each with the position after it."""

    @abstractmethod
    def epoch(self, n: int) -> list[BatchPlan]:
        """Return all micro-batches of epoch n: every example once. Not for a corpus too long for
        memory.
        """


class BatchStream(BatchSource):
    """Stream of one corpus: every example once per epoch, bucketed by length.

    Two sentences are in one batch because they are in the same buffer and similarly long. The
    examples, the settings, the seed and n alone determine epoch n: its examples are shuffled and
    divided into buffers; each buffer is sorted by length, cut into batches where the budget is
    full, and its batches are shuffled. Only one buffer is in memory. With more than `BLOCKS`
    examples, blocks of neighbours are shuffled, and then the examples within each buffer.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        settings: BatchingSettings,
        seed: int,
        resample: Resample | None = None,
    ) -> None:
        """`resample` makes the examples of some indices from a seed, if they are not the same in
        each epoch.
        """
        if not examples:
            raise DataError(
                "there is no sentence pair to make batches of; give at least one"
            )
        self.examples = examples
        self.settings = settings
        self.seed = seed
        self.resample = resample
        self.per_update = (
            1 if settings.micro_batches == "auto" else settings.micro_batches
        )
        self.budget = -(-settings.tokens // self.per_update)
        self._block = -(-len(examples) // BLOCKS)
        self._blocks = -(-len(examples) // self._block)
        self._buffers = -(-self._blocks // self._blocks_per_buffer)

    def epoch(self, n: int) -> list[BatchPlan]:
        """Return all micro-batches of epoch n in their order."""
        return [
            plan
            for number in range(self._buffers)
            for plan in _Buffer(self, n, number).plans()
        ]

    @cached_property
    def epoch_stats(self) -> EpochStats:
        """Statistics of epoch 0; extrapolated from its first buffer if blocks are shuffled or text
        is resampled.
        """
        if self._block == 1 and self.resample is None:
            return reduce(
                EpochStats.__add__,
                (self._buffer_stats(number)[1] for number in range(self._buffers)),
            )
        count, stats = self._buffer_stats(0)
        return stats.scaled(len(self.examples) / count)

    def plans(self, position: Position) -> Iterator[tuple[Position, BatchPlan]]:
        """Yield micro-batches without end, each with the position after it."""
        # The corpus was longer when the position was saved.
        if position.buffer >= self._buffers:
            position = Position(position.epoch + 1)
        buffer = _Buffer(self, position.epoch, position.buffer)
        while True:
            plans = buffer.plans()
            last = position.buffer + 1 == self._buffers
            following = (
                Position(position.epoch + 1)
                if last
                else Position(position.epoch, position.buffer + 1)
            )
            buffer = _Buffer(self, following.epoch, following.buffer)
            for number in range(position.batch, len(plans)):
                buffer.read(
                    (number + 1 - position.batch) / (len(plans) - position.batch)
                )
                within = Position(position.epoch, position.buffer, number + 1)
                yield within if number + 1 < len(plans) else following, plans[number]
            position = following

    def buffer_indices(
        self, epoch: int, buffer: int
    ) -> tuple[list[int], np.random.Generator]:
        """Return the indices of the examples of a buffer, and the generator of its further random
        choices.
        """
        order = np.random.Generator(np.random.PCG64([self.seed, epoch])).permutation(
            self._blocks
        )
        generator = np.random.Generator(np.random.PCG64([self.seed, epoch, buffer]))
        blocks = order[
            buffer * self._blocks_per_buffer : (buffer + 1) * self._blocks_per_buffer
        ]
        if self._block == 1:
            return blocks.tolist(), generator
        indices = (blocks[:, None] * self._block + np.arange(self._block)).reshape(-1)
        return generator.permutation(
            indices[indices < len(self.examples)]
        ).tolist(), generator

    def read_chunks(
        self, indices: list[int], generator: np.random.Generator
    ) -> Iterator[list[Example]]:
        """Yield the examples of these indices, `CHUNK` at a time."""
        for start in range(0, len(indices), CHUNK):
            chunk = indices[start : start + CHUNK]
            if self.resample is None:
                yield [self.examples[index] for index in chunk]
            else:
                yield self.resample(chunk, int(generator.integers(2**31)))

    @property
    def _blocks_per_buffer(self) -> int:
        return -(-self.settings.buffer_size // self._block)

    def _buffer_stats(self, buffer: int) -> tuple[int, EpochStats]:
        """Return the number of examples in a buffer of epoch 0, and its statistics."""
        indices, generator = self.buffer_indices(0, buffer)
        if self.resample is None and isinstance(self.examples, Shards):
            return len(indices), epoch_stats_of_lengths(
                *self.examples.lengths(indices), self.budget
            )
        examples = [
            example
            for chunk in self.read_chunks(indices, generator)
            for example in chunk
        ]
        return len(indices), epoch_stats(examples, self.budget)


class _Buffer:
    """The batches of one buffer, read little by little while training consumes the buffer before
    it.
    """

    def __init__(self, stream: BatchStream, epoch: int, buffer: int) -> None:
        self._indices, self._generator = stream.buffer_indices(epoch, buffer)
        self._budget = stream.budget
        self._chunks = stream.read_chunks(self._indices, self._generator)
        self._examples: list[Example] = []

    def read(self, share: float) -> None:
        """Read on until this share of the examples, from 0 to 1, is in memory."""
        while len(self._examples) < share * len(self._indices):
            self._examples += next(self._chunks)

    def plans(self) -> list[BatchPlan]:
        """Return the batches in their order."""
        self.read(1.0)
        plans = [
            BatchPlan(
                tuple(self._examples[i] for i in bucket),
                tuple(self._indices[i] for i in bucket),
            )
            for bucket in make_buckets(self._examples, self._budget)
        ]
        return [plans[index] for index in self._generator.permutation(len(plans))]
