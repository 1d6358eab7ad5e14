"""Updates of batches without end: an order fixed by the seed, a place that can be saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, reduce
from itertools import islice
from typing import Any, Literal

import numpy as np
from pydantic import Field

from regard.data.batch import Example, Resample, StoredExamples, TrainingBatch, collate
from regard.data.bucketing import EpochStats, epoch_stats, epoch_stats_of_lengths, make_buckets
from regard.errors import DataError
from regard.settings import Settings

__all__ = ["BatchPlan", "BatchSource", "BatchStream", "BatchingSettings", "Position", "Update"]

BLOCKS = 2_000_000
"""An epoch shuffles at most so many blocks of neighbouring lines; a corpus of no more lines has one line in each."""

CHUNK = 10_000
"""Lines that are read, and cut into pieces anew, at once: half a second, so that nobody waits for a whole pool.

Fewer would cost more in all, since words that come often are cut a few times for each portion.
"""


class BatchingSettings(Settings):
    """How sentences are put together."""

    tokens: int = Field(4096, ge=1, description="Size of an update: pieces on its larger side, ends and padding too.")
    micro_batches: int | Literal["auto"] = Field(
        "auto",
        description="Batches that an update is cut into, each computed by its own thread or process, or in turn; more "
        "need less memory and padding. auto: one for each processor core up to four, one on a GPU; then written down.",
    )
    buffer_size: int = Field(100_000, ge=1, description="Sentences that are sorted by length at once.")
    subword_dropout: float = Field(
        0.0, ge=0, lt=1, description="Cut words into pieces anew in each epoch, leaving out this share of BPE's merges."
    )

    def resolved(self, workers: int) -> BatchingSettings:
        """With `batches` put in the place of auto, for so many cores or processes."""
        return self.with_values(micro_batches=max(1, workers)) if self.micro_batches == "auto" else self


@dataclass(frozen=True)
class BatchPlan:
    """A batch before it is tensors: some examples, and their numbers."""

    examples: tuple[Example, ...]
    indices: tuple[int, ...]

    @cached_property
    def tokens(self) -> int:
        """Target pieces to predict."""
        return sum(len(target) for example in self.examples for target in example.targets)

    def batch(self) -> TrainingBatch:
        """The tensors."""
        return collate(self.examples, self.indices)


@dataclass(frozen=True)
class Position:
    """Where training stands: the next batch to read, counted from 0 within its pool, the pools within their epoch.

    In a mixture `parts` says where each corpus stands, `batch` how many batches were drawn, and `epoch` how often
    all of every corpus has been read.
    """

    epoch: int = 0
    buffer: int = 0
    batch: int = 0
    parts: Sequence[Position] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))  # JSON brings lists

    def to_json(self) -> dict[str, Any]:
        """As plain values; `dataclasses.asdict` gives the same."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Position:
        """Back from plain values, those of older runs too."""
        return cls(**{**values, "parts": [cls.from_json(part) for part in values.get("parts", ())]})


@dataclass(frozen=True)
class Update:
    """The batches whose gradients together move the weights once, and where training stands after them."""

    plans: tuple[BatchPlan, ...]
    after: Position

    @property
    def tokens(self) -> int:
        """Target pieces to predict in all of them."""
        return sum(plan.tokens for plan in self.plans)


class BatchSource(ABC):
    """Gives updates without end, from any position on."""

    per_update: int
    """Batches in an update."""

    def updates(self, position: Position | None = None) -> Iterator[Update]:
        """Updates without end from `position` on."""
        stream = self.plans(position or Position())
        while True:
            group = list(islice(stream, self.per_update))
            yield Update(tuple(plan for _, plan in group), group[-1][0])

    def padding(self) -> tuple[float, float]:
        """The share of padding among all source and all target positions of epoch 0."""
        return self.epoch_stats.padding()

    @property
    @abstractmethod
    def epoch_stats(self) -> EpochStats:
        """What epoch 0 looks like."""

    @abstractmethod
    def plans(self, position: Position) -> Iterator[tuple[Position, BatchPlan]]:
        """Batches without end, each with the position to go on from after it."""

    @abstractmethod
    def epoch(self, n: int) -> list[BatchPlan]:
        """All batches of epoch n: everything once. Not for a corpus too long for memory."""


class BatchStream(BatchSource):
    """Every example once per epoch, in batches whose sentences are nearly equally long.

    Epoch n is decided by the examples, the settings, the seed and n alone: its sentences are shuffled and cut into
    pools; each pool is sorted, cut where the budget is full, and its batches are shuffled. Only one pool is at hand.
    Of more than `BLOCKS` sentences, blocks of neighbours are shuffled, and the sentences of each pool among themselves.
    """

    def __init__(
        self, examples: Sequence[Example], settings: BatchingSettings, seed: int, resample: Resample | None = None
    ) -> None:
        """`again` gives the examples of some lines anew, by a seed, where they are not the same in each epoch."""
        if not examples:
            raise DataError("there is no sentence pair to make batches of; give at least one")
        self.examples, self.settings, self.seed, self.resample = examples, settings, seed, resample
        self.per_update = 1 if settings.micro_batches == "auto" else settings.micro_batches
        self.budget = -(-settings.tokens // self.per_update)
        self._block = -(-len(examples) // BLOCKS)
        self._blocks = -(-len(examples) // self._block)
        self._buffers = -(-self._blocks // self._blocks_per_buffer)

    def epoch(self, n: int) -> list[BatchPlan]:
        """All batches of epoch n, in the order they come."""
        return [plan for pool in range(self._buffers) for plan in _Buffer(self, n, pool).plans()]

    @cached_property
    def epoch_stats(self) -> EpochStats:
        """What epoch 0 looks like; from its first pool alone where blocks are shuffled, or sentences cut anew."""
        if self._block == 1 and self.resample is None:
            return reduce(EpochStats.__add__, (self._buffer_stats(pool)[1] for pool in range(self._buffers)))
        lines, outline = self._buffer_stats(0)
        return outline.scaled(len(self.examples) / lines)

    def plans(self, position: Position) -> Iterator[tuple[Position, BatchPlan]]:
        """Batches without end, each with the position to go on from after it."""
        if position.buffer >= self._buffers:  # there was more to train on when the place was noted
            position = Position(position.epoch + 1)
        pool = _Buffer(self, position.epoch, position.buffer)
        while True:
            plans = pool.plans()
            last = position.buffer + 1 == self._buffers
            following = Position(position.epoch + 1) if last else Position(position.epoch, position.buffer + 1)
            pool = _Buffer(self, following.epoch, following.buffer)
            for number in range(position.batch, len(plans)):
                pool.read((number + 1 - position.batch) / (len(plans) - position.batch))
                after = Position(position.epoch, position.buffer, number + 1) if number + 1 < len(plans) else following
                yield after, plans[number]
            position = following

    def buffer_indices(self, epoch: int, pool: int) -> tuple[list[int], np.random.Generator]:
        """Which lines are in a pool, and where its further chances come from."""
        order = np.random.Generator(np.random.PCG64([self.seed, epoch])).permutation(self._blocks)
        chance = np.random.Generator(np.random.PCG64([self.seed, epoch, pool]))
        blocks = order[pool * self._blocks_per_buffer : (pool + 1) * self._blocks_per_buffer]
        if self._block == 1:
            return blocks.tolist(), chance
        lines = (blocks[:, None] * self._block + np.arange(self._block)).reshape(-1)
        return chance.permutation(lines[lines < len(self.examples)]).tolist(), chance

    def read_chunks(self, lines: list[int], chance: np.random.Generator) -> Iterator[list[Example]]:
        """The examples of these lines, a few at a time."""
        for begin in range(0, len(lines), CHUNK):
            some = lines[begin : begin + CHUNK]
            if self.resample is None:
                yield [self.examples[line] for line in some]
            else:
                yield self.resample(some, int(chance.integers(2**31)))

    @property
    def _blocks_per_buffer(self) -> int:
        return -(-self.settings.buffer_size // self._block)

    def _buffer_stats(self, pool: int) -> tuple[int, EpochStats]:
        """How many lines are in a pool of epoch 0, and its outline."""
        lines, chance = self.buffer_indices(0, pool)
        if self.resample is None and isinstance(self.examples, StoredExamples):
            return len(lines), epoch_stats_of_lengths(*self.examples.lengths(lines), self.budget)
        examples = [example for some in self.read_chunks(lines, chance) for example in some]
        return len(lines), epoch_stats(examples, self.budget)


class _Buffer:
    """The batches of one pool, made ready little by little while another is trained on."""

    def __init__(self, batches: BatchStream, epoch: int, pool: int) -> None:
        self._lines, self._chance = batches.buffer_indices(epoch, pool)
        self._budget = batches.budget
        self._portions = batches.read_chunks(self._lines, self._chance)
        self._examples: list[Example] = []

    def read(self, share: float) -> None:
        """See that this share of the examples, from 0 to 1, is there."""
        while len(self._examples) < share * len(self._lines):
            self._examples += next(self._portions)

    def plans(self) -> list[BatchPlan]:
        """The batches, in the order they come."""
        self.read(1.0)
        plans = [
            BatchPlan(tuple(self._examples[i] for i in batch), tuple(self._lines[i] for i in batch))
            for batch in make_buckets(self._examples, self._budget)
        ]
        return [plans[place] for place in self._chance.permutation(len(plans))]
