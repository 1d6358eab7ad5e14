"""Attention as kernel operations: projections to keys, values and queries, transforms of the score,
and attention.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from regard.attention import Attention
from regard.attention.scores import (
    Additive,
    Cosine,
    CosineFixed,
    CosinePlain,
    Dot,
    General,
    ScaledDot,
)
from regard.layers.embedding import Embedding
from regard.runtime.engine.program import Builder

DOTS = (Dot, ScaledDot, General, Cosine, CosineFixed, CosinePlain)


def why_not_emitted(attention: Attention) -> str | None:
    """Return why this attention has no operations; None if it has."""
    kind = type(attention.score)
    if kind in DOTS or (
        kind is Additive and attention.role == "cross" and attention.heads == 1
    ):
        return None
    return f"attends with {attention.heads} heads by {kind.__name__}"


def emit_embedding(
    b: Builder, embedding: Embedding, positions: nn.Module | None
) -> int:
    """Embed the input tokens and their positions; return the register."""
    if positions is None:
        return b.embed(embedding.weight, embedding.scale)
    frozen = copy.deepcopy(positions)

    def first(count: int) -> Any:
        return frozen(torch.arange(count)[None])[0].detach().numpy()

    return b.embed(embedding.weight, embedding.scale, first)


def emit_memories(
    b: Builder, attentions: Iterable[Attention], outputs: int, values: int | None = None
) -> int:
    """Project encoder outputs to the keys and values of each attention, into its part of a memory.

    `values`: the register of what the values are made of, if not of the outputs. Returns the
    numbers of one entry.
    """
    offset = 0
    for attention in attentions:
        weight, bias = _key_projection(attention)
        keys = outputs if weight is None else b.linear(outputs, weight, bias)
        if weight is None and _is_cosine(attention):
            keys = b.register(b.widths[outputs])
            b.add("copy", outputs, keys, offset=0, column=0, size=b.widths[outputs])
        _emit_unit_norm(b, attention, keys)
        weight, bias = _parameters(attention.value)
        value = outputs if values is None else values
        value = value if weight is None else b.linear(value, weight, bias)
        key_size = b.widths[keys]
        size = b.widths[value]
        b.add(
            "store_memory",
            keys,
            extra=value,
            column=0,
            size=size,
            extent=key_size,
            offset=offset,
        )
        offset += key_size + size
    return offset


def emit_query(
    b: Builder, attention: Attention, source: int, offset: int, size: int
) -> int:
    """Project `size` columns of a register, from `offset` on, to a query; return its register."""
    weight, bias = _parameters(attention.query)
    if weight is None:
        query = b.register(size)
        b.add("copy", source, query, offset=offset, column=0, size=size)
    else:
        query = b.linear(source, weight, bias, offset=offset)
    _emit_unit_norm(b, attention, query, is_query=True)
    return query


def emit_cross_attention(  # noqa: PLR0913 - registers and sizes of one operation
    b: Builder,
    attention: Attention,
    query: int,
    target: int,
    column: int,
    size: int,
    offset: int,
    times_root_length: bool = False,
) -> None:
    """Attend to the source's memory, whose part for this attention begins at `offset`.

    The context of `size` goes into columns from `column` on; `times_root_length`: times the root of
    the source length.
    """
    fields: dict[str, Any] = {
        "column": column,
        "size": size,
        "extent": b.widths[query],
        "offset": offset,
    }
    fields |= {"activation": int(times_root_length), "heads": attention.heads}
    if isinstance(attention.score, Additive):
        b.add(
            "additive_attention", query, target, table=attention.score.vector, **fields
        )
    else:
        b.add("cross_attention", query, target, scale=scale(attention), **fields)


def emit_self_projections(
    b: Builder, attention: Attention, source: int, target: int
) -> None:
    """Project a register to query, key and value of self-attention, side by side in another."""
    key, key_bias = _key_projection(attention)
    layers = [
        _parameters(attention.query),
        (key, key_bias),
        _parameters(attention.value),
    ]
    weights = [weight for weight, _ in layers if weight is not None]
    assert len(weights) == 3, "self-attention has projections"
    biases = [
        w.new_zeros(len(w)) if bias is None else bias
        for w, (_, bias) in zip(weights, layers, strict=True)
    ]
    b.linear(source, torch.cat(weights), torch.cat(biases), target=target)
    _emit_unit_norm(b, attention, target, 0, attention.size, is_query=True)
    _emit_unit_norm(b, attention, target, attention.size, attention.size)


def scale(attention: Attention) -> float:
    """Return the factor of dot products."""
    query = torch.zeros(1, attention.heads, 1, attention.score.query_size)
    return float(attention.score.as_dot(query)[1])  # type: ignore[index]


def _emit_unit_norm(
    b: Builder,
    attention: Attention,
    register: int,
    column: int = 0,
    size: int | None = None,
    is_query: bool = False,
) -> None:
    """Scale keys and queries of cosine scores to length one, queries also by the inverse
    temperature of their head.
    """
    if not _is_cosine(attention):
        return
    scales = torch.ones(attention.heads)
    if is_query and isinstance(attention.score, Cosine):
        scales = torch.exp(-attention.score.log_temperature)
    size = size or b.widths[register]
    heads = attention.heads
    b.add(
        "unit_norm",
        register,
        register,
        column=column,
        size=size,
        heads=heads,
        table=scales,
    )


def _is_cosine(attention: Attention) -> bool:
    return isinstance(attention.score, Cosine | CosineFixed)


def _key_projection(
    attention: Attention,
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Key projection with the score's key transform folded in; None if keys are unprojected."""
    weight, bias = _parameters(attention.key)
    if not isinstance(attention.score, General):
        return weight, bias
    matrix: torch.Tensor = attention.score.matrix  # (H, Eq, E)
    if weight is None:
        return matrix[0], None
    parts = weight.view(attention.heads, -1, weight.shape[1])
    return torch.matmul(matrix, parts).flatten(0, 1), None


def _parameters(layer: nn.Module) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    return (layer.weight, layer.bias) if isinstance(layer, nn.Linear) else (None, None)
