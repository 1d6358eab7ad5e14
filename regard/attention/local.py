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
"""Fewest positions of a block; smaller ones leave the kernels too little work per call."""


def blocks_pay_off(T: int, window: int) -> bool:
    """Return whether blocks avoid most of the T² scores of full attention."""
    return 6 * _block_size(window) < T


def is_contiguous(keep: Bool[Tensor, "R S"] | None) -> bool:
    """Return whether the visible entries of each row are contiguous.

    A distance between entries is then a distance between positions.
    """
    if keep is None:
        return True
    starts = keep & ~F.pad(keep, (1, 0))[:, :-1]
    return bool((starts.sum(1) <= 1).all())


def to_blocks(
    query: Float[Tensor, "R H T E"], memory: Memory, causal: bool, window: int
) -> tuple[Float[Tensor, "RB H W E"], Memory, Bool[Tensor, "RB 1 W S"]]:
    """Cut T queries and their memory of T entries into blocks.

    Returns the queries (R·blocks, H, W, E), a memory with a row for each block, and its mask. A
    query whose own entry is hidden attends to the entries near its position, perhaps to none; its
    result is unused.
    """
    R = memory.rows
    T = query.shape[2]
    W = _block_size(window)
    missing = -T % W  # positions that the last block lacks
    after = 0 if causal else W  # entries after a block that its queries may see
    span = 2 * W + after  # entries of a block with its neighbours
    queries = _unfold(F.pad(query, (0, 0, 0, missing)), W, W)

    padding = (W, missing + after)
    keys = _unfold(F.pad(memory.keys, (0, 0, *padding)), span, W)
    values = _unfold(F.pad(memory.values, (0, 0, *padding)), span, W)

    keep = memory.keep
    if keep is None:
        keep = query.new_ones(1, T, dtype=torch.bool)
    # (R or 1, blocks, 1, S)
    visible = F.pad(keep, padding).unfold(1, span, W)[:, :, None]
    entries = torch.arange(-W, W + after, device=query.device)
    # (W, S)
    offset = entries - torch.arange(W, device=query.device)[:, None]
    near = (offset <= 0 if causal else offset <= window) & (offset >= -window)
    # (RB, W, S)
    block_keep = (visible & near).expand(R, -1, -1, -1).flatten(0, 1)
    return queries, Memory(keys, values), block_keep.unsqueeze(1)


def from_blocks(
    vectors: Float[Tensor, "RB H W Ev"], R: int, T: int
) -> Float[Tensor, "R H T Ev"]:
    """Join the blocks of results; the inverse of what `to_blocks` does to queries."""
    RB, H, W, Ev = vectors.shape
    blocks = vectors.view(R, RB // R, H, W, Ev)
    return blocks.transpose(1, 2).reshape(R, H, -1, Ev)[:, :, :T]


def _block_size(window: int) -> int:
    return max(window, MIN_BLOCK)


def _unfold(
    vectors: Float[Tensor, "R H S E"], size: int, step: int
) -> Float[Tensor, "RB H W E"]:
    """Cut the third axis into pieces of `size`, one every `step` positions."""
    return vectors.unfold(2, size, step).permute(0, 2, 1, 4, 3).flatten(0, 1)
