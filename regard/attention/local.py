"""Block-local (sliding-window) self-attention: T queries cost T times the window instead of T².

Queries are cut into blocks of W; each block attends to its own entries and those of the blocks
before and after it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from regard.attention.kv_cache import Memory
from regard.common.shapes import Bool, Float, Tensor

MIN_BLOCK = 16
"""Smaller blocks leave the kernels too little work per call."""


def blocks_pay_off(T: int, window: int) -> bool:
    """Return whether blocks avoid most of the T² scores of full attention."""
    return 6 * _block(window) < T


def is_contiguous(keep: Bool[Tensor, "R S"] | None) -> bool:
    """Return whether the visible entries of each row are contiguous, so that a window counts
    positions.
    """
    if keep is None:
        return True
    starts = keep & ~F.pad(keep, (1, 0))[:, :-1]
    return bool((starts.sum(1) <= 1).all())


def to_blocks(
    query: Float[Tensor, "R H T E"], memory: Memory, causal: bool, window: int
) -> tuple[Float[Tensor, "RB H W E"], Memory, Bool[Tensor, "RB 1 W S"]]:
    """Cut T queries and their memory of T entries into blocks: queries (R·blocks, H, W, E), small
    memories, masks.

    A query whose own entry is hidden attends to the entries near its position, perhaps to none; its
    result is unused.
    """
    R = memory.rows
    T = query.shape[2]
    W = _block(window)
    blocks = -(-T // W)
    after = 0 if causal else W
    queries = (
        F.pad(query, (0, 0, 0, blocks * W - T))
        .unfold(2, W, W)
        .permute(0, 2, 1, 4, 3)
        .flatten(0, 1)
    )
    padding = (W, blocks * W - T + after)
    visible = F.pad(
        query.new_ones(1, T, dtype=torch.bool) if memory.keep is None else memory.keep,
        padding,
    )
    keys, values = (
        F.pad(part, (0, 0, *padding))
        .unfold(2, 2 * W + after, W)
        .permute(0, 2, 1, 4, 3)
        .flatten(0, 1)
        for part in (memory.keys, memory.values)
    )
    # (W, S)
    offset = (
        torch.arange(-W, W + after, device=query.device)
        - torch.arange(W, device=query.device)[:, None]
    )
    near = (offset <= 0 if causal else offset <= window) & (offset >= -window)
    # (RB, W, S)
    keep = (
        (visible.unfold(1, 2 * W + after, W)[:, :, None] & near)
        .expand(R, -1, -1, -1)
        .flatten(0, 1)
    )
    return queries, Memory(keys, values), keep.unsqueeze(1)


def from_blocks(
    vectors: Float[Tensor, "RB H W Ev"], R: int, T: int
) -> Float[Tensor, "R H T Ev"]:
    """Join the blocks of results again; the inverse of what `to_blocks` does to queries."""
    RB, H, W, Ev = vectors.shape
    return (
        vectors.view(R, RB // R, H, W, Ev)
        .transpose(1, 2)
        .reshape(R, H, -1, Ev)[:, :, :T]
    )


def _block(window: int) -> int:
    return max(window, MIN_BLOCK)
