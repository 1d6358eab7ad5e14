"""Reading only what is near, block by block: T queries cost T times the window, not T times T.

Queries stand in blocks of W; each block reads its own entries, those of the block before, and those of the block after.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from regard.attention.memory import Memory
from regard.shapes import Bool, Float, Tensor

__all__ = ["blocks_pay_off", "from_blocks", "is_contiguous", "to_blocks"]

SMALLEST = 16
"""Of a block: smaller ones leave the kernels too little to do at a time."""


def blocks_pay_off(T: int, window: int) -> bool:
    """Whether blocks leave out most of what T queries would score all over."""
    return 6 * _block(window) < T


def is_contiguous(keep: Bool[Tensor, "R S"] | None) -> bool:
    """Whether what may be read stands together, so that a window is no wider than it seems."""
    if keep is None:
        return True
    begins = keep & ~F.pad(keep, (1, 0))[:, :-1]
    return bool((begins.sum(1) <= 1).all())


def to_blocks(
    query: Float[Tensor, "R H T E"], memory: Memory, causal: bool, window: int
) -> tuple[Float[Tensor, "RB H W E"], Memory, Bool[Tensor, "RB 1 W S"]]:
    """T queries to a memory of T entries, as blocks of queries to small memories, and which entries each may read.

    A query whose own entry is hidden reads what is near its place, which may be nothing; nobody reads its answer.
    """
    R, T, W = memory.rows, query.shape[2], _block(window)
    blocks, after = -(-T // W), 0 if causal else W
    queries = F.pad(query, (0, 0, 0, blocks * W - T)).unfold(2, W, W).permute(0, 2, 1, 4, 3).flatten(0, 1)
    around = (W, blocks * W - T + after)
    exists = F.pad(query.new_ones(1, T, dtype=torch.bool) if memory.keep is None else memory.keep, around)
    keys, values = (
        F.pad(part, (0, 0, *around)).unfold(2, 2 * W + after, W).permute(0, 2, 1, 4, 3).flatten(0, 1)
        for part in (memory.keys, memory.values)
    )
    ahead = torch.arange(-W, W + after, device=query.device) - torch.arange(W, device=query.device)[:, None]  # (W, S)
    near = (ahead <= 0 if causal else ahead <= window) & (ahead >= -window)
    keep = (exists.unfold(1, 2 * W + after, W)[:, :, None] & near).expand(R, -1, -1, -1).flatten(0, 1)  # (RB, W, S)
    return queries, Memory(keys, values), keep.unsqueeze(1)


def from_blocks(answers: Float[Tensor, "RB H W Ev"], R: int, T: int) -> Float[Tensor, "R H T Ev"]:
    """The answers in one row again; the inverse of what `into_blocks` does to queries."""
    RB, H, W, Ev = answers.shape
    return answers.view(R, RB // R, H, W, Ev).transpose(1, 2).reshape(R, H, -1, Ev)[:, :, :T]


def _block(window: int) -> int:
    return max(window, SMALLEST)
