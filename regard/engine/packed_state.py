"""What a prepared model hands on from step to step: tables of addresses, so choosing and joining copy no numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.engine.program import address

__all__ = ["PackedSource", "PackedState"]

Array = NDArray[Any]
CLEARED = 24
"""Steps between two looks for blocks that no hypothesis remembers any more."""


@dataclass(frozen=True)
class PackedSource:
    """The memories of some sentences: where each begins, how many entries it has, where its first state is."""

    memories: Array  # (B,) addresses
    entries: Array  # (B,)
    first: Array  # (B,) addresses of the state before the first piece; zero where there is none
    kept: tuple[Array, ...]

    def __len__(self) -> int:
        return len(self.memories)

    def select(self, sentences: Any) -> PackedSource:
        """The source of some of the sentences, in the order named."""
        index = np.asarray(sentences)
        memories = self.memories[index]
        kept = _used(self.kept, memories) if len(index) < len(self.memories) else self.kept
        return PackedSource(memories, self.entries[index], self.first[index], kept)

    def join(self, other: PackedSource) -> PackedSource:
        """The sentences of both."""
        return PackedSource(
            np.concatenate([self.memories, other.memories]),
            np.concatenate([self.entries, other.entries]),
            np.concatenate([self.first, other.first]),
            _both(self.kept, other.kept),
        )


@dataclass(frozen=True)
class PackedState:
    """Where each hypothesis stands: how many pieces it has, and which blocks its steps left behind."""

    position: Array  # (N,)
    lengths: Array  # (N,) blocks of each row
    past: Array  # (N, t) their addresses, oldest first
    kept: tuple[Array, ...]
    steps: int = 0

    def __len__(self) -> int:
        return len(self.position)

    def select(self, rows: Any) -> PackedState:
        """The state of other rows: repeated, reordered or dropped, as `rows` names them."""
        index = np.asarray(rows)
        lengths = self.lengths[index]
        past = self.past[index]
        if len(index) < len(self.position) and len(index):
            past = past[:, : lengths.max()]
        return PackedState(self.position[index], lengths, past, self.kept, self.steps)

    def join(self, other: PackedState) -> PackedState:
        """The rows of both: new sentences enter."""
        longest = max(self.past.shape[1], other.past.shape[1])
        past = np.zeros((len(self) + len(other), longest), np.int64)
        past[: len(self), : self.past.shape[1]] = self.past
        past[len(self) :, : other.past.shape[1]] = other.past
        return PackedState(
            np.concatenate([self.position, other.position]),
            np.concatenate([self.lengths, other.lengths]),
            past,
            _both(self.kept, other.kept),
            self.steps,
        )

    def grown(self, blocks: Array) -> PackedState:
        """With one more block in each row: (N, numbers)."""
        N, t = self.past.shape
        past = np.empty((N, t + 1), np.int64)
        past[:, :t] = self.past
        past[np.arange(N), self.lengths] = addresses(blocks)
        kept, steps = (*self.kept, blocks), self.steps + 1
        if steps % CLEARED == 0:
            known = past[np.arange(t + 1) <= self.lengths[:, None]]
            kept = _used(kept, known)
        return PackedState(self.position + 1, self.lengths + 1, past, kept, steps)

    def replaced(self, blocks: Array) -> PackedState:
        """With one block in each row in place of the one before."""
        return PackedState(self.position + 1, self.lengths, addresses(blocks)[:, None], (blocks,), self.steps + 1)


def addresses(blocks: Array) -> Array:
    """Where each row of a matrix is."""
    return address(blocks) + np.arange(len(blocks), dtype=np.int64) * blocks.strides[0]


def _both(mine: tuple[Array, ...], theirs: tuple[Array, ...]) -> tuple[Array, ...]:
    known = set(map(id, mine))
    return (*mine, *(array for array in theirs if id(array) not in known))


def _used(kept: tuple[Array, ...], known: Array) -> tuple[Array, ...]:
    """Those arrays in which one of the addresses lies."""
    known = np.sort(known, axis=None)
    starts = np.array([address(array) for array in kept], np.int64)
    ends = starts + np.array([array.nbytes for array in kept], np.int64)
    used = np.searchsorted(known, starts) < np.searchsorted(known, ends)
    return tuple(array for array, here in zip(kept, used, strict=True) if here)
