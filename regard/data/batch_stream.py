"""Batch stream for training: shuffle the examples, bucket them by length, and divide updates into
micro-batches (gradient accumulation).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, islice
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
"""Maximum number of blocks of neighbouring examples that an epoch shuffles; up to so many examples,
each is a block of its own.
"""

CHUNK = 10_000
"""Examples that are read and tokenised again at once, which takes half a second: training never
waits for a whole buffer.

Smaller chunks would take longer in total, since frequent words are segmented a few times for each
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
        """Return the settings with "auto" replaced by one micro-batch for each worker."""
        if self.micro_batches != "auto":
            return self
        return self.with_values(micro_batches=max(1, workers))


@dataclass(frozen=True)
class BatchPlan:
    """A micro-batch before it becomes tensors."""

    examples: tuple[Example, ...]
    indices: tuple[int, ...]  # of the examples in the corpus

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
    """Position in the data: epoch, buffer within the epoch, and next batch within the buffer, all
    counted from 0.

    In a mixture, `parts` are the positions in each corpus, `batch` is the number of batches drawn
    so far, and `epoch` is the number of times that every corpus has been read completely.
    """

    epoch: int = 0
    buffer: int = 0
    batch: int = 0
    parts: Sequence[Position] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))  # JSON has lists

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Position:
        """Make a position from the output of `dataclasses.asdict`."""
        parts = [cls.from_json(part) for part in values["parts"]]
        return cls(**{**values, "parts": parts})


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
    """Source of updates without end, which can start at any position."""

    per_update: int
    """Micro-batches in an update."""

    def updates(self, position: Position | None = None) -> Iterator[Update]:
        """Yield updates without end, starting at `position`."""
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
        """Return all micro-batches of epoch n, which hold every example once; the corpus must fit
        in memory.
        """


class BatchStream(BatchSource):
    """Stream of one corpus: every example once per epoch, bucketed by length.

    Each epoch is shuffled and divided into buffers. A buffer is sorted by length and divided into
    batches that fill the budget, and its batches are shuffled. If there are more than `BLOCKS`
    examples, blocks of neighbours are shuffled, and then the examples within each buffer. Only one
    buffer is in memory. Epoch n depends on the examples, the settings, the seed and n alone.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        settings: BatchingSettings,
        seed: int,
        resample: Resample | None = None,
    ) -> None:
        """`resample` makes the examples anew in each epoch, if they change."""
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
            buffers = (self._buffer_stats(number)[1] for number in range(self._buffers))
            return reduce(EpochStats.__add__, buffers)
        count, stats = self._buffer_stats(0)
        return stats.scaled(len(self.examples) / count)

    def plans(self, position: Position) -> Iterator[tuple[Position, BatchPlan]]:
        """Yield micro-batches without end, each with the position after it."""
        if position.buffer >= self._buffers:
            # The corpus was longer when the position was saved.
            position = Position(position.epoch + 1)
        buffer = _Buffer(self, position.epoch, position.buffer)
        while True:
            plans = buffer.plans()
            if position.buffer + 1 == self._buffers:
                following = Position(position.epoch + 1)
            else:
                following = Position(position.epoch, position.buffer + 1)

            # The next buffer is read bit by bit while the batches of this one are consumed.
            buffer = _Buffer(self, following.epoch, following.buffer)
            remaining = len(plans) - position.batch
            for number in range(position.batch, len(plans)):
                buffer.read((number + 1 - position.batch) / remaining)
                after = following
                if number + 1 < len(plans):
                    after = Position(position.epoch, position.buffer, number + 1)
                yield after, plans[number]
            position = following

    def buffer_indices(
        self, epoch: int, buffer: int
    ) -> tuple[list[int], np.random.Generator]:
        """Return the indices of a buffer's examples, and the generator for further random choices
        within it.
        """
        epoch_generator = np.random.Generator(np.random.PCG64([self.seed, epoch]))
        order = epoch_generator.permutation(self._blocks)
        start = buffer * self._blocks_per_buffer
        blocks = order[start : start + self._blocks_per_buffer]

        generator = np.random.Generator(np.random.PCG64([self.seed, epoch, buffer]))
        if self._block == 1:
            return blocks.tolist(), generator
        indices = (blocks[:, None] * self._block + np.arange(self._block)).reshape(-1)
        indices = indices[indices < len(self.examples)]
        return generator.permutation(indices).tolist(), generator

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
            sources, targets = self.examples.lengths(indices)
            stats = epoch_stats_of_lengths(sources, targets, self.budget)
        else:
            examples = list(chain.from_iterable(self.read_chunks(indices, generator)))
            stats = epoch_stats(examples, self.budget)
        return len(indices), stats


class _Buffer:
    """One buffer, which is read bit by bit while training consumes the buffer before it."""

    def __init__(self, stream: BatchStream, epoch: int, buffer: int) -> None:
        self._indices, self._generator = stream.buffer_indices(epoch, buffer)
        self._budget = stream.budget
        self._chunks = stream.read_chunks(self._indices, self._generator)
        self._examples: list[Example] = []

    def read(self, share: float) -> None:
        """Read until this share of the examples, from 0 to 1, is in memory."""
        while len(self._examples) < share * len(self._indices):
            self._examples += next(self._chunks)

    def plans(self) -> list[BatchPlan]:
        """Return the batches in their order."""
        self.read(1.0)
        plans = []
        for bucket in make_buckets(self._examples, self._budget):
            examples = tuple(self._examples[index] for index in bucket)
            indices = tuple(self._indices[index] for index in bucket)
            plans.append(BatchPlan(examples, indices))
        return [plans[index] for index in self._generator.permutation(len(plans))]
