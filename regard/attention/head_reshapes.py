"""Reshapes for multi-head attention.

Heads are split and merged; beams that share a memory row are folded into the query axis.
"""

from __future__ import annotations

from regard.common.shapes import Float, Tensor


def split_heads(
    vectors: Float[Tensor, "N T D"], heads: int
) -> Float[Tensor, "N H T E"]:
    """Split each vector into `heads` equal parts."""
    N, T, D = vectors.shape
    return vectors.view(N, T, heads, D // heads).transpose(1, 2)


def merge_heads(vectors: Float[Tensor, "N H T E"]) -> Float[Tensor, "N T D"]:
    """Concatenate the heads of each vector; the inverse of `split_heads`."""
    return vectors.transpose(1, 2).flatten(2)


def fold_beams(
    queries: Float[Tensor, "N H T E"], rows: int
) -> Float[Tensor, "R H KT E"]:
    """Put the K = N // R queries that share a memory row on one axis.

    The memory then need not be copied for each beam.
    """
    if queries.shape[0] == rows:
        return queries
    N, H, T, E = queries.shape
    assert N % rows == 0, f"{N} queries cannot share {rows} memories equally"
    beams = queries.view(rows, N // rows, H, T, E)
    return beams.transpose(1, 2).reshape(rows, H, -1, E)


def unfold_beams(
    vectors: Float[Tensor, "R H KT X"], N: int
) -> Float[Tensor, "N H T X"]:
    """Give each of the N queries its own row again; the inverse of `fold_beams`."""
    R, H, KT, X = vectors.shape
    if R == N:
        return vectors
    K = N // R
    return vectors.view(R, H, K, KT // K, X).transpose(1, 2).reshape(N, H, KT // K, X)
