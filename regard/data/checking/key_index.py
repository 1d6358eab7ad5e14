"""Hash table of integers in NumPy: all keys are looked up at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_EMPTY = -1


class KeyIndex:
    """The places of different keys in their array, by open addressing with linear probing."""

    def __init__(self, keys: Ints) -> None:
        self.keys = keys
        # At most half of the slots are taken.
        self._bits = (2 * len(keys) + 1).bit_length()
        self._slots = np.full(1 << self._bits, _EMPTY, np.int32)
        left = np.arange(len(keys), dtype=np.int32)
        slots = self._first_slots(keys)
        while len(left):
            is_free = self._slots[slots] == _EMPTY
            self._slots[slots[is_free]] = left[is_free]  # of several keys the last
            is_left = self._slots[slots] != left
            left, slots = left[is_left], self._next(slots[is_left])

    def places(self, wanted: Ints) -> Ints:
        """Return the place of each wanted key, or -1."""
        places = np.empty_like(wanted)
        left = np.arange(len(wanted))
        slots = self._first_slots(wanted)
        while len(left):
            own = self._slots[slots]
            places[left] = own
            is_left = (own != _EMPTY) & (self.keys[own] != wanted[left])
            left, slots = left[is_left], self._next(slots[is_left])
        return places

    def _first_slots(self, keys: Ints) -> Ints:
        hashes = keys.astype(np.uint64) * _MULTIPLIER
        return (hashes >> np.uint64(64 - self._bits)).astype(np.int64)

    def _next(self, slots: Ints) -> Ints:
        return (slots + 1) & (len(self._slots) - 1)
