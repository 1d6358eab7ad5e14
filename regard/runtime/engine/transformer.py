"""Kernel programs of the Transformer: encoder, memories of the decoder, and decoding step."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from regard.attention import Attention
from regard.layers.feedforward import FeedForward, swiglu
from regard.layers.residual import Residual
from regard.models.transformer import (
    DecoderLayer,
    EncoderLayer,
    TransformerDecoder,
    TransformerEncoder,
)
from regard.runtime.engine.attention_ops import (
    emit_cross_attention,
    emit_embedding,
    emit_memories,
    emit_query,
    emit_self_projections,
    scale,
    why_not_emitted,
)
from regard.runtime.engine.program import Builder, EncoderProgram, Precision, Program

ACTIVATIONS: dict[object, str] = {
    F.relu: "relu",
    F.gelu: "gelu",
    F.silu: "silu",
    swiglu: "none",
}


def why_not(module: TransformerEncoder | TransformerDecoder) -> str | None:
    """Return which part of the encoder or decoder has no program; None if every part has one."""
    for name, part in module.named_modules():
        if isinstance(part, Attention):
            reason = why_not_emitted(part)
            if reason is not None:
                return f"{name} {reason}, which has no program"
        if isinstance(part, Residual) and not (
            part.connected and isinstance(part.norm, nn.LayerNorm)
        ):
            return f"{name} lacks its residual connection or layer norm, which has no program"
        if isinstance(part, FeedForward) and part.activation not in ACTIVATIONS:
            return f"{name} has an activation that has no program"
    return None


def encoder_program(
    encoder: TransformerEncoder, precision: Precision
) -> EncoderProgram:
    """Build the program of the encoder, whose input is sentences laid end to end."""
    builder = Builder(precision)
    x = emit_embedding(builder, encoder.input_embedding)
    D = builder.widths[x]
    embedded = builder.register(D)
    y = builder.register(D)
    projected = builder.register(3 * D)
    context = builder.register(D)
    builder.add("copy", x, embedded, offset=0, column=0, size=D)
    for layer in encoder.layers:
        _self_attention(builder, layer, (x, y, projected, context))
        _feedforward(builder, layer, x, y)
    _last_norm(builder, encoder, x)
    return EncoderProgram(builder.build(), x, embedded)


def memory_program(
    decoder: TransformerDecoder,
    size: int,
    embedded: int,  # noqa: ARG001
    precision: Precision,
) -> tuple[Program, int]:
    """Build the program that projects encoder outputs to the attention memories of all layers.

    Returns also the size of a memory entry in numbers.
    """
    builder = Builder(precision)
    attentions = (layer.cross_attention for layer in decoder.layers)
    entry = emit_memories(builder, attentions, builder.register(size))
    return builder.build(), entry


def step_program(
    decoder: TransformerDecoder, precision: Precision
) -> tuple[Program, int, int]:
    """Build the program of one decoding step.

    Returns also the register of the features, and the size of a block in numbers. A block holds the
    self-attention keys and values of each layer, which are one position of the KV cache.
    """
    builder = Builder(precision)
    x = emit_embedding(builder, decoder.input_embedding)
    D = builder.widths[x]
    y = builder.register(D)
    projected = builder.register(3 * D)
    context = builder.register(D)
    offset = 0
    for i, layer in enumerate(decoder.layers):
        _self_attention(builder, layer, (x, y, projected, context), 2 * D * i)
        z = _before(builder, layer.cross_attention_residual, x, y)
        query = emit_query(builder, layer.cross_attention, z, 0, D)
        emit_cross_attention(
            builder, layer.cross_attention, query, context, 0, D, offset
        )
        offset += builder.widths[query] + D
        _after(
            builder,
            layer.cross_attention_residual,
            x,
            context,
            layer.cross_attention.output,
        )
        _feedforward(builder, layer, x, y)
    _last_norm(builder, decoder, x)
    return builder.build(), x, 2 * D * len(decoder.layers)


def _last_norm(
    builder: Builder, side: TransformerEncoder | TransformerDecoder, x: int
) -> None:
    if isinstance(side.norm, nn.LayerNorm):
        builder.norm(x, side.norm, x)


def _before(builder: Builder, residual: Residual, x: int, y: int) -> int:
    """Normalise x into y if the sublayer is pre-norm; return the input of the sublayer."""
    return builder.norm(x, residual.norm, y) if residual.pre else x


def _after(
    builder: Builder, residual: Residual, x: int, change: int, layer: nn.Module
) -> None:
    """Add the output projection of a sublayer to x, and normalise the sum if it is post-norm."""
    assert isinstance(layer, nn.Linear), "the output of a sublayer is projected"
    builder.linear(change, layer.weight, layer.bias, plus=x, target=x)
    if not residual.pre:
        builder.norm(x, residual.norm, x)


def _self_attention(
    builder: Builder,
    layer: EncoderLayer | DecoderLayer,
    registers: tuple[int, int, int, int],
    offset: int | None = None,
) -> None:
    """Attend to the input, or to the KV cache, whose part of this layer begins at `offset`."""
    x, y, projected, context = registers
    attention = layer.self_attention
    size = builder.widths[x]
    z = _before(builder, layer.self_attention_residual, x, y)
    emit_self_projections(builder, attention, z, projected)
    kind = "encoder_attention"
    if offset is not None:
        kind = "cached_attention"
        builder.add("store_block", projected, column=size, size=2 * size, offset=offset)
    builder.add(
        kind,
        projected,
        context,
        extent=layer.window or 0,
        size=size,
        offset=offset or 0,
        heads=attention.heads,
        scale=scale(attention),
    )
    _after(builder, layer.self_attention_residual, x, context, attention.output)


def _feedforward(
    builder: Builder, layer: EncoderLayer | DecoderLayer, x: int, y: int
) -> None:
    network = layer.feedforward
    z = _before(builder, layer.feedforward_residual, x, y)
    inner = builder.linear(
        z,
        network.widen.weight,
        network.widen.bias,
        activation=ACTIVATIONS[network.activation],
    )
    if network.activation is swiglu:
        both = inner
        inner = builder.register(builder.widths[inner] // 2)
        builder.add("glu", both, inner, size=builder.widths[inner], activation="silu")
    _after(builder, layer.feedforward_residual, x, inner, network.narrow)
