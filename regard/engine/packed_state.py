"""KV cache and source memories of packed models: tables of addresses, so that selecting and joining copy no numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.engine.program import address
from regard.shapes import Array

RELEASE_EVERY = 24
"""Steps between two searches for buffers that no hypothesis refers to any more."""


@dataclass(frozen=True)
class PackedSource:
    """Encoder memories of B sentences: where each begins, its number of entries, and where its initial state is."""

    memories: Array  # (B,) addresses
    entries: Array  # (B,)
    initial_states: Array  # (B,) addresses; zero if decoding begins without a state
    buffers: tuple[Array, ...]  # own the memory that the addresses point into

    def __len__(self) -> int:
        return len(self.memories)

    def select(self, sentences: Any) -> PackedSource:
        """Return the source of the sentences of these indices, in their order."""
        index = np.asarray(sentences)
        memories = self.memories[index]
        buffers = _referenced(self.buffers, memories) if len(index) < len(self.memories) else self.buffers
        return PackedSource(memories, self.entries[index], self.initial_states[index], buffers)

    def join(self, other: PackedSource) -> PackedSource:
        """Append the sentences of another source."""
        return PackedSource(
            np.concatenate([self.memories, other.memories]),
            np.concatenate([self.entries, other.entries]),
            np.concatenate([self.initial_states, other.initial_states]),
            _union(self.buffers, other.buffers),
        )


@dataclass(frozen=True)
class PackedState:
    """KV cache, or recurrent state, of N hypotheses: the block of numbers that each of their steps left behind."""

    position: Array  # (N,) target positions so far
    lengths: Array  # (N,) blocks of each row
    past: Array  # (N, t) addresses of the blocks, oldest first
    buffers: tuple[Array, ...]  # own the memory of the blocks
    steps: int = 0

    def __len__(self) -> int:
        return len(self.position)

    def select(self, rows: Any) -> PackedState:
        """Return the state of other rows: repeated, reordered or dropped."""
        index = np.asarray(rows)
        lengths = self.lengths[index]
        past = self.past[index]
        if len(index) < len(self.position) and len(index):
            past = past[:, : lengths.max()]
        return PackedState(self.position[index], lengths, past, self.buffers, self.steps)

    def join(self, other: PackedState) -> PackedState:
        """Append the rows of another state: new sentences enter."""
        longest = max(self.past.shape[1], other.past.shape[1])
        past = np.zeros((len(self) + len(other), longest), np.int64)
        past[: len(self), : self.past.shape[1]] = self.past
        past[len(self) :, : other.past.shape[1]] = other.past
        return PackedState(
            np.concatenate([self.position, other.position]),
            np.concatenate([self.lengths, other.lengths]),
            past,
            _union(self.buffers, other.buffers),
            self.steps,
        )

    def append(self, blocks: Array) -> PackedState:
        """Append one block (N, numbers) to each row, as a KV cache grows."""
        N, t = self.past.shape
        past = np.empty((N, t + 1), np.int64)
        past[:, :t] = self.past
        past[np.arange(N), self.lengths] = addresses(blocks)
        buffers, steps = (*self.buffers, blocks), self.steps + 1
        if steps % RELEASE_EVERY == 0:
            buffers = _referenced(buffers, past[np.arange(t + 1) <= self.lengths[:, None]])
        return PackedState(self.position + 1, self.lengths + 1, past, buffers, steps)

    def replace(self, blocks: Array) -> PackedState:
        """Replace the block of each row, as a recurrent state does."""
        return PackedState(self.position + 1, self.lengths, addresses(blocks)[:, None], (blocks,), self.steps + 1)


def addresses(blocks: Array) -> Array:
    """Return the address of each row of a matrix."""
    return address(blocks) + np.arange(len(blocks), dtype=np.int64) * blocks.strides[0]


def _union(mine: tuple[Array, ...], theirs: tuple[Array, ...]) -> tuple[Array, ...]:
    known = set(map(id, mine))
    return (*mine, *(array for array in theirs if id(array) not in known))


def _referenced(buffers: tuple[Array, ...], pointers: Array) -> tuple[Array, ...]:
    """Return the buffers into which one of the addresses points."""
    pointers = np.sort(pointers, axis=None)
    starts = np.array([address(array) for array in buffers], np.int64)
    ends = starts + np.array([array.nbytes for array in buffers], np.int64)
    is_used = np.searchsorted(pointers, starts) < np.searchsorted(pointers, ends)
    return tuple(array for array, used in zip(buffers, is_used, strict=True) if used)
