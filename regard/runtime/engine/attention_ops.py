"""Emit attention as kernel operations: projections, score transforms, and attention itself."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import torch
from torch import nn

from regard.attention import Attention, masked_softmax
from regard.attention.scores import (
    Additive,
    Cosine,
    CosineFixed,
    CosinePlain,
    Dot,
    General,
    ScaledDot,
)
from regard.common.counting import counted
from regard.common.shapes import Array
from regard.layers.input_embedding import InputEmbedding
from regard.runtime.engine.program import Builder

DOTS = (Dot, ScaledDot, General, Cosine, CosineFixed, CosinePlain)


def why_not_emitted(attention: Attention) -> str | None:
    """Return why the kernels cannot compute this attention; None if they can."""
    score = attention.score
    kind = type(score)
    if attention.positions is not None:
        return f"attends with {type(attention.positions).__name__}"
    if score.normaliser is not masked_softmax:
        name = getattr(score.normaliser, "__name__", "a normaliser")
        return f"turns scores into weights by {name}"
    if kind in DOTS or (
        kind is Additive and attention.role == "cross" and attention.heads == 1
    ):
        return None
    return f"attends with {counted(attention.heads, 'head')} by {kind.__name__}"


def emit_embedding(builder: Builder, inputs: InputEmbedding) -> int:
    """Embed the input tokens, and add position embeddings if there are any; return the register."""
    embedding = inputs.embedding
    positions = inputs.position_embedding
    if positions is None:
        return builder.embed(embedding.weight, embedding.scale)
    frozen = copy.deepcopy(positions)

    def first_positions(count: int) -> Array:
        positions: Array = frozen(torch.arange(count)[None])[0].detach().numpy()
        return positions

    return builder.embed(embedding.weight, embedding.scale, first_positions)


def emit_memories(
    builder: Builder,
    attentions: Iterable[Attention],
    outputs: int,
    values: int | None = None,
) -> int:
    """Project encoder outputs to the keys and values of each attention, and store them in its part
    of the memory.

    `values`: the register that values are projected from, if that is not the register of the
    outputs. Returns the size of a memory entry in numbers.
    """
    offset = 0
    for attention in attentions:
        weight, bias = _key_projection(attention)
        keys = outputs if weight is None else builder.linear(outputs, weight, bias)
        if weight is None and _is_cosine(attention):
            keys = builder.register(builder.widths[outputs])
            builder.add(
                "copy", outputs, keys, offset=0, column=0, size=builder.widths[outputs]
            )
        _emit_unit_norm(builder, attention, keys)
        weight, bias = _parameters(attention.value)
        value = outputs if values is None else values
        if weight is not None:
            value = builder.linear(value, weight, bias)
        key_size = builder.widths[keys]
        size = builder.widths[value]
        builder.add(
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
    builder: Builder, attention: Attention, source: int, offset: int, size: int
) -> int:
    """Project `size` columns of a register, from `offset` on, to a query; return its register."""
    weight, bias = _parameters(attention.query)
    if weight is None:
        query = builder.register(size)
        builder.add("copy", source, query, offset=offset, column=0, size=size)
    else:
        query = builder.linear(source, weight, bias, offset=offset)
    _emit_unit_norm(builder, attention, query, is_query=True)
    return query


def emit_cross_attention(  # noqa: PLR0913 - registers and sizes of one operation
    builder: Builder,
    attention: Attention,
    query: int,
    target: int,
    column: int,
    size: int,
    offset: int,
    times_root_length: bool = False,
) -> None:
    """Attend to the memory of the source, in which the part of this attention begins at `offset`.

    The context, of `size` numbers, is written to the target from `column` on. If
    `times_root_length`, it is multiplied by the square root of the source length.
    """
    fields = {
        "column": column,
        "size": size,
        "extent": builder.widths[query],
        "offset": offset,
        "activation": int(times_root_length),
        "heads": attention.heads,
    }
    if isinstance(attention.score, Additive):
        builder.add(
            "additive_attention", query, target, table=attention.score.vector, **fields
        )
    else:
        builder.add("cross_attention", query, target, scale=scale(attention), **fields)


def emit_self_projections(
    builder: Builder, attention: Attention, source: int, target: int
) -> None:
    """Project a register to query, key and value of self-attention, side by side in the target."""
    key, key_bias = _key_projection(attention)
    layers = [
        _parameters(attention.query),
        (key, key_bias),
        _parameters(attention.value),
    ]
    weights = [weight for weight, _ in layers if weight is not None]
    assert len(weights) == 3, "self-attention has projections"
    biases = [
        weight.new_zeros(len(weight)) if bias is None else bias
        for weight, (_, bias) in zip(weights, layers, strict=True)
    ]
    builder.linear(source, torch.cat(weights), torch.cat(biases), target=target)
    _emit_unit_norm(builder, attention, target, 0, attention.size, is_query=True)
    _emit_unit_norm(builder, attention, target, attention.size, attention.size)


def scale(attention: Attention) -> float:
    """Return the factor that the score multiplies dot products by."""
    query = torch.zeros(1, attention.heads, 1, attention.score.query_size)
    return float(attention.score.as_dot(query)[1])  # type: ignore[index]


def _emit_unit_norm(
    builder: Builder,
    attention: Attention,
    register: int,
    column: int = 0,
    size: int | None = None,
    is_query: bool = False,
) -> None:
    """Normalise the keys and queries of cosine scores to length one.

    Queries are also divided by the temperature of their head.
    """
    if not _is_cosine(attention):
        return
    scales = torch.ones(attention.heads)
    if is_query and isinstance(attention.score, Cosine):
        scales = torch.exp(-attention.score.log_temperature)
    size = size or builder.widths[register]
    heads = attention.heads
    builder.add(
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
    """Return the key projection with the score's key transform folded in; None if keys are
    unprojected.
    """
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
