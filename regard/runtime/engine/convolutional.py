"""Kernel programs of the convolutional encoder and decoder."""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.layers.convolution import SQRT_HALF, GatedConvolution
from regard.models.convolutional import ConvolutionalDecoder, ConvolutionalEncoder
from regard.runtime.engine.attention_ops import (
    emit_cross_attention,
    emit_embedding,
    emit_memories,
    emit_query,
    why_not_emitted,
)
from regard.runtime.engine.program import Builder, EncoderProgram, Precision, Program


def why_not(decoder: ConvolutionalDecoder) -> str | None:
    """Return what of this decoder the programs do not support; None if they support all."""
    first: Any = decoder.layers[0]
    reason = why_not_emitted(first.cross_attention)
    return None if reason is None else f"the decoder {reason}, which has no program"


def encoder_program(
    encoder: ConvolutionalEncoder, precision: Precision
) -> EncoderProgram:
    """Build the encoder's program, for sentences that stand one after another."""
    b = Builder(precision)
    embedded = emit_embedding(
        b, encoder.embedding, encoder.input_embedding.position_embedding
    )
    x = b.linear(embedded, encoder.widen.weight, encoder.widen.bias)
    before = encoder.padding[2]
    D = b.widths[x]
    for layer in encoder.layers:
        convolution: Any = layer
        window = b.register(convolution.kernel_size * D)
        b.add(
            "window", x, window, size=D, extent=convolution.kernel_size, column=before
        )
        b.mix(_gated(b, convolution, window), x, SQRT_HALF, target=x)
    outputs = b.linear(x, encoder.narrow.weight, encoder.narrow.bias)
    return EncoderProgram(b.build(), outputs, embedded)


def memory_program(
    decoder: ConvolutionalDecoder, size: int, embedded: int, precision: Precision
) -> tuple[Program, int]:
    """Build the program from encoder outputs to the memories of all layers; values add the source
    embeddings.

    Returns also the numbers of one entry.
    """
    b = Builder(precision)
    outputs = b.register(size)
    embeddings = b.register(embedded)
    values = b.mix(outputs, _fitted(b, decoder.fit_source, embeddings), SQRT_HALF)
    layers: Any = decoder.layers
    entry = emit_memories(
        b, (layer.cross_attention for layer in layers), outputs, values
    )
    return b.build(), entry


def step_program(
    decoder: ConvolutionalDecoder, precision: Precision
) -> tuple[Program, int, int]:
    """Build the program of one decoding step; return it, the register of the features, and the
    numbers of a block.

    A block holds the input of each layer, which later steps read through their windows.
    """
    b = Builder(precision)
    offset = 0
    embedded = emit_embedding(
        b, decoder.embedding, decoder.input_embedding.position_embedding
    )
    x = b.linear(embedded, decoder.widen.weight, decoder.widen.bias)
    target = _fitted(b, decoder.fit_target, embedded)
    D = b.widths[x]
    layers: Any = decoder.layers
    for i, layer in enumerate(layers):
        window = b.register(layer.convolution.kernel_size * D)
        b.add("store_block", x, column=0, size=D, offset=i * D)
        b.add(
            "past_window",
            x,
            window,
            size=D,
            extent=layer.convolution.kernel_size,
            offset=i * D,
        )
        y = _gated(b, layer.convolution, window)
        asking = b.mix(
            b.linear(y, layer.query_in.weight, layer.query_in.bias), target, SQRT_HALF
        )
        size = b.widths[asking]
        query = emit_query(b, layer.cross_attention, asking, 0, size)
        context = b.register(size)
        emit_cross_attention(
            b,
            layer.cross_attention,
            query,
            context,
            0,
            size,
            offset,
            times_root_length=True,
        )
        offset += b.widths[query] + size
        b.mix(
            b.linear(context, layer.context_out.weight, layer.context_out.bias),
            y,
            SQRT_HALF,
            target=y,
        )
        b.mix(y, x, SQRT_HALF, target=x)
    features = b.linear(x, decoder.narrow.weight, decoder.narrow.bias)
    return b.build(), features, D * len(decoder.layers)


def _gated(b: Builder, convolution: GatedConvolution, window: int) -> int:
    """Apply a convolution to windows laid side by side, then its gated linear unit."""
    both = b.linear(window, convolution.linear.weight, convolution.linear.bias)
    gated = b.register(b.widths[both] // 2)
    b.add("glu", both, gated, size=b.widths[gated])
    return gated


def _fitted(b: Builder, fit: nn.Module, source: int) -> int:
    """Project a register to another size, if needed."""
    layer: Any = fit
    return (
        source
        if isinstance(fit, nn.Identity)
        else b.linear(source, layer.weight, layer.bias)
    )
