"""Side by side: one vector cut into heads, heads glued together, beams folded over the memory they share."""

from __future__ import annotations

from regard.shapes import Float, Tensor

__all__ = ["fold_beams", "merge_heads", "split_heads", "unfold_beams"]


def split_heads(vectors: Float[Tensor, "N T D"], heads: int) -> Float[Tensor, "N H T E"]:
    """Cut each vector into `heads` equal parts."""
    N, T, D = vectors.shape
    return vectors.view(N, T, heads, D // heads).transpose(1, 2)


def merge_heads(vectors: Float[Tensor, "N H T E"]) -> Float[Tensor, "N T D"]:
    """Glue the heads of each vector together again."""
    return vectors.transpose(1, 2).flatten(2)


def fold_beams(queries: Float[Tensor, "N H T E"], rows: int) -> Float[Tensor, "R H KT E"]:
    """Put the K = N // R queries that read one memory side by side, so that the memory is not copied for each."""
    if queries.shape[0] == rows:
        return queries
    N, H, T, E = queries.shape
    assert N % rows == 0, f"{N} queries cannot share {rows} memories equally"
    return queries.view(rows, N // rows, H, T, E).transpose(1, 2).reshape(rows, H, -1, E)


def unfold_beams(answers: Float[Tensor, "R H KT X"], N: int) -> Float[Tensor, "N H T X"]:
    """Give each of the N queries its answers back; the inverse of `fold`."""
    R, H, KT, X = answers.shape
    if R == N:
        return answers
    K = N // R
    return answers.view(R, H, K, KT // K, X).transpose(1, 2).reshape(N, H, KT // K, X)
