"""A read as operations: what its score asks of keys and queries, and the read itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from regard.attention import Attention
from regard.attention.scores import Additive, Cosine, CosineFixed, Dot, General, ScaledDot
from regard.engine.program import Builder

__all__ = [
    "emit_attention",
    "emit_directions",
    "emit_memory",
    "emit_query",
    "heads_of",
    "key_projection",
    "scale",
    "why_not_emitted",
]

DOTS = (Dot, ScaledDot, General, Cosine, CosineFixed)


def why_not_emitted(read: Attention) -> str | None:
    """Why this read has no operations; None where it has."""
    kind = type(read.score)
    if kind in DOTS or (kind is Additive and read.role == "cross" and read.heads == 1):
        return None
    return f"reads with {read.heads} heads by {kind.__name__}"


def key_projection(read: Attention) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The weight and bias that make an entry a key, with what the score does to keys; no weight: it is one as it is."""
    weight, bias = _of(read.key)
    if not isinstance(read.score, General):
        return weight, bias
    matrix: torch.Tensor = read.score.matrix  # (H, Eq, E)
    if weight is None:
        return matrix[0], None
    parts = weight.view(read.heads, -1, weight.shape[1])
    return torch.matmul(matrix, parts).flatten(0, 1), None


def emit_memory(b: Builder, read: Attention, said: int, place: int, values: int | None = None) -> int:
    """What an encoder says, prepared for this read, into its part of a memory; gives the numbers of an entry.

    `values`: what is answered with, where that is not what is compared.
    """
    values = said if values is None else values
    weight, bias = key_projection(read)
    keys = said if weight is None else b.linear(said, weight, bias)
    if keys == said and _compares_directions(read):
        keys = b.register(b.widths[said])
        b.add("copy", said, keys, place=0, at=0, size=b.widths[said])
    emit_directions(b, read, keys)
    value, value_bias = _of(read.value)
    values = values if value is None else b.linear(values, value, value_bias)
    entry, size = b.widths[keys], b.widths[values]
    b.add("memorise", keys, extra=values, at=0, size=size, entry=entry, place=place)
    return entry + size


def emit_query(b: Builder, read: Attention, source: int, place: int, size: int) -> int:
    """`size` columns of a register from `place` on, as a query."""
    weight, bias = _of(read.query)
    if weight is None:
        query = b.register(size)
        b.add("copy", source, query, place=place, at=0, size=size)
    else:
        query = b.linear(source, weight, bias, place=place)
    emit_directions(b, read, query, asking=True)
    return query


def emit_directions(
    b: Builder, read: Attention, register: int, at: int = 0, size: int | None = None, asking: bool = False
) -> None:
    """Cosines compare directions: their keys and queries have length one, queries times the sharpness of their head."""
    if not _compares_directions(read):
        return
    scales = torch.ones(read.heads)
    if asking and isinstance(read.score, Cosine):
        scales = torch.exp(-read.score.log_temperature)
    b.add("unit", register, register, at=at, size=size or b.widths[register], heads=read.heads, table=scales)


def emit_attention(
    b: Builder, read: Attention, query: int, to: int, at: int, size: int, place: int, as_large: bool = False
) -> None:
    """Read the source's memory, whose part for this read begins at `place`: values of `size` into columns from `at`.

    `as_large`: times the root of the number of entries.
    """
    values: dict[str, Any] = {"at": at, "size": size, "entry": b.widths[query], "place": place, "bend": int(as_large)}
    if isinstance(read.score, Additive):
        b.add("additive", query, to, table=read.score.vector, **values)
    else:
        b.add("attend_source", query, to, scale=scale(read), heads=read.heads, **values)


def _compares_directions(read: Attention) -> bool:
    return isinstance(read.score, Cosine | CosineFixed)


def scale(read: Attention) -> float:
    """What dot products are multiplied by."""
    return float(read.score.as_dot(torch.zeros(1, read.heads, 1, read.score.query_size))[1])  # type: ignore[index]


def heads_of(read: Attention) -> tuple[torch.Tensor, torch.Tensor]:
    """The weights and biases of query, key and value as one layer."""
    key, key_bias = key_projection(read)
    layers = [_of(read.query), (key, key_bias), _of(read.value)]
    weights = [weight for weight, _ in layers if weight is not None]
    assert len(weights) == 3, "a read of a sequence by itself has projections"
    biases = [w.new_zeros(len(w)) if bias is None else bias for w, (_, bias) in zip(weights, layers, strict=True)]
    return torch.cat(weights), torch.cat(biases)


def _of(layer: nn.Module) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    return (layer.weight, layer.bias) if isinstance(layer, nn.Linear) else (None, None)
