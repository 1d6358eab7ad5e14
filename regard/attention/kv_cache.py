"""Keys, values and padding mask that attention reads, which are also a decoder's KV cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from regard.common.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Memory:
    """Prepared keys, their values, and the mask `keep` (True = may be attended to; None = all may).

    A memory never changes: `append` returns a longer KV cache, and the shorter one stays valid.
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
        """Select rows by index; they may be repeated, reordered or dropped."""
        keys = self.keys.index_select(0, rows)
        values = self.values.index_select(0, rows)
        keep = None if self.keep is None else self.keep.index_select(0, rows)
        return Memory(keys, values, keep)

    def append(
        self, keys: Float[Tensor, "R H T E"], values: Float[Tensor, "R H T Ev"]
    ) -> Memory:
        """Return the KV cache with T more entries at its end, all visible."""
        if self.entries == 0:
            return Memory(keys, values)
        keep = self.keep
        if keep is not None:
            keep = F.pad(keep, (0, keys.shape[2]), value=True)
        return Memory(
            torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2), keep
        )

    def join(self, other: Memory) -> Memory:
        """Concatenate the rows of two memories.

        The shorter one is padded at its end with hidden entries.
        """
        longest = max(self.entries, other.entries)
        first = self._padded(longest)
        second = other._padded(longest)
        keep = None
        if first.keep is not None or second.keep is not None:
            keep = torch.cat([first._full_keep(), second._full_keep()])
        return Memory(
            torch.cat([first.keys, second.keys]),
            torch.cat([first.values, second.values]),
            keep,
        )

    def _padded(self, entries: int) -> Memory:
        missing = entries - self.entries
        if missing == 0:
            return self
        keep = F.pad(self._full_keep(), (0, missing), value=False)
        return Memory(
            F.pad(self.keys, (0, 0, 0, missing)),
            F.pad(self.values, (0, 0, 0, missing)),
            keep,
        )

    def _full_keep(self) -> Tensor:
        if self.keep is not None:
            return self.keep
        return torch.ones(
            self.rows, self.entries, dtype=torch.bool, device=self.keys.device
        )
