"""The soft dictionary: keys and values side by side, and which entries may be read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from regard.shapes import Bool, Float, Int, Tensor

__all__ = ["Memory"]


@dataclass(frozen=True)
class Memory:
    """What a query can read: prepared keys, their values, and `keep` (True = may be read; None = everything may).

    A memory never changes: a cache grows by making a longer one, so the shorter one can be read again.
    """

    keys: Float[Tensor, "R H S E"]
    values: Float[Tensor, "R H S Ev"]
    keep: Bool[Tensor, "R S"] | None = None

    @property
    def rows(self) -> int:
        return self.keys.shape[0]

    @property
    def entries(self) -> int:
        return self.keys.shape[2]

    def select(self, rows: Int[Tensor, " N"]) -> Memory:
        """The memory of other rows: repeated, reordered or dropped, as `rows` names them."""
        keep = None if self.keep is None else self.keep.index_select(0, rows)
        return Memory(self.keys.index_select(0, rows), self.values.index_select(0, rows), keep)

    def append(self, keys: Float[Tensor, "R H T E"], values: Float[Tensor, "R H T Ev"]) -> Memory:
        """The memory with T more entries at its end, all of which may be read."""
        if self.entries == 0:
            return Memory(keys, values)
        keep = None if self.keep is None else F.pad(self.keep, (0, keys.shape[2]), value=True)
        return Memory(torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2), keep)

    def join(self, other: Memory) -> Memory:
        """The rows of both, the shorter one padded at its end with entries that may not be read."""
        longest = max(self.entries, other.entries)
        mine, theirs = self._padded(longest), other._padded(longest)
        keep = None
        if mine.keep is not None or theirs.keep is not None:
            keep = torch.cat([mine._full_keep(), theirs._full_keep()])
        return Memory(torch.cat([mine.keys, theirs.keys]), torch.cat([mine.values, theirs.values]), keep)

    def _padded(self, entries: int) -> Memory:
        more = entries - self.entries
        if more == 0:
            return self
        keep = F.pad(self._full_keep(), (0, more), value=False)
        return Memory(F.pad(self.keys, (0, 0, 0, more)), F.pad(self.values, (0, 0, 0, more)), keep)

    def _full_keep(self) -> Tensor:
        if self.keep is not None:
            return self.keep
        return torch.ones(self.rows, self.entries, dtype=torch.bool, device=self.keys.device)
