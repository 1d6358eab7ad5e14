"""Kernel programs of the Transformer: its encoder, the memories of its decoder, and one decoding
step.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import nn

from regard.attention import Attention
from regard.layers.feedforward import FeedForward, swiglu
from regard.layers.residual import Residual
from regard.models.transformer import TransformerDecoder, TransformerEncoder
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

ACTIVATIONS: dict[Any, str] = {
    F.relu: "relu",
    F.gelu: "gelu",
    F.silu: "silu",
    swiglu: "none",
}


def why_not(module: TransformerEncoder | TransformerDecoder) -> str | None:
    """Return what of this encoder or decoder the programs do not support; None if they support
    all.
    """
    for name, part in module.named_modules():
        if (
            isinstance(part, Attention)
            and (reason := why_not_emitted(part)) is not None
        ):
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
    """Build the encoder's program, for sentences that stand one after another."""
    b = Builder(precision)
    x = emit_embedding(b, encoder.embedding, encoder.input_embedding.position_embedding)
    D = b.widths[x]
    embedded, y, projected, context = (b.register(n) for n in (D, D, 3 * D, D))
    b.add("copy", x, embedded, offset=0, column=0, size=D)
    layers: Any = encoder.layers
    for layer in layers:
        z = _before(b, layer.self_attention_residual, x, y)
        emit_self_projections(b, layer.self_attention, z, projected)
        fields = _score_fields(layer.self_attention)
        b.add(
            "encoder_attention",
            projected,
            context,
            extent=layer.window or 0,
            size=D,
            **fields,
        )
        _after(
            b, layer.self_attention_residual, x, context, layer.self_attention.output
        )
        _feedforward(b, layer, x, y)
    _last_norm(b, encoder, x)
    return EncoderProgram(b.build(), x, embedded)


def memory_program(
    decoder: TransformerDecoder,
    size: int,
    embedded: int,  # noqa: ARG001
    precision: Precision,
) -> tuple[Program, int]:
    """Build the program from encoder outputs to the memories of all layers; return also the numbers
    of one entry.
    """
    b = Builder(precision)
    layers: Any = decoder.layers
    entry = emit_memories(
        b, (layer.cross_attention for layer in layers), b.register(size)
    )
    return b.build(), entry


def step_program(
    decoder: TransformerDecoder, precision: Precision
) -> tuple[Program, int, int]:
    """Build the program of one decoding step; return it, the register of the features, and the
    numbers of a block.

    A block holds the self-attention keys and values of each layer: one position of the KV cache.
    """
    b = Builder(precision)
    x = emit_embedding(b, decoder.embedding, decoder.input_embedding.position_embedding)
    D = b.widths[x]
    y, projected, context = (b.register(n) for n in (D, 3 * D, D))
    offset = 0
    layers: Any = decoder.layers
    for i, layer in enumerate(layers):
        z = _before(b, layer.self_attention_residual, x, y)
        emit_self_projections(b, layer.self_attention, z, projected)
        b.add("store_block", projected, column=D, size=2 * D, offset=2 * D * i)
        fields = _score_fields(layer.self_attention)
        window = layer.window or 0
        b.add(
            "cached_attention",
            projected,
            context,
            extent=window,
            size=D,
            offset=2 * D * i,
            **fields,
        )
        _after(
            b, layer.self_attention_residual, x, context, layer.self_attention.output
        )
        z = _before(b, layer.cross_attention_residual, x, y)
        query = emit_query(b, layer.cross_attention, z, 0, D)
        emit_cross_attention(b, layer.cross_attention, query, context, 0, D, offset)
        offset += b.widths[query] + D
        _after(
            b, layer.cross_attention_residual, x, context, layer.cross_attention.output
        )
        _feedforward(b, layer, x, y)
    _last_norm(b, decoder, x)
    return b.build(), x, 2 * D * len(decoder.layers)


def _last_norm(
    b: Builder, side: TransformerEncoder | TransformerDecoder, x: int
) -> None:
    if isinstance(side.norm, nn.LayerNorm):
        b.norm(x, side.norm, x)


def _before(b: Builder, residual: Any, x: int, y: int) -> int:
    """Normalise x into y before a pre-norm sublayer; return the register that the sublayer
    reads.
    """
    return b.norm(x, residual.norm, y) if residual.pre else x


def _after(b: Builder, residual: Any, x: int, change: int, layer: nn.Linear) -> None:
    """Add the sublayer's output projection to x; normalise it if post-norm."""
    b.linear(change, layer.weight, layer.bias, plus=x, target=x)
    if not residual.pre:
        b.norm(x, residual.norm, x)


def _feedforward(b: Builder, layer: Any, x: int, y: int) -> None:
    network: FeedForward = layer.feedforward
    z = _before(b, layer.feedforward_residual, x, y)
    inner = b.linear(
        z,
        network.widen.weight,
        network.widen.bias,
        activation=ACTIVATIONS[network.activation],
    )
    if network.activation is swiglu:
        both = inner
        inner = b.register(b.widths[inner] // 2)
        b.add("glu", both, inner, size=b.widths[inner], activation="silu")
    _after(b, layer.feedforward_residual, x, inner, network.narrow)


def _score_fields(attention: Attention) -> dict[str, Any]:
    return {"heads": attention.heads, "scale": scale(attention)}
