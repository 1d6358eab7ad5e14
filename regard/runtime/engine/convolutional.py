"""Kernel programs of the convolutional encoder and decoder."""

from __future__ import annotations

from torch import nn

from regard.layers.convolution import SQRT_HALF, GatedConvolution, WeightNormLinear
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
    """Return which part of the decoder has no program; None if every part has one."""
    reason = why_not_emitted(decoder.layers[0].cross_attention)
    return None if reason is None else f"the decoder {reason}, which has no program"


def encoder_program(
    encoder: ConvolutionalEncoder, precision: Precision
) -> EncoderProgram:
    """Build the program of the encoder, whose input is sentences laid end to end."""
    builder = Builder(precision)
    embedded = emit_embedding(builder, encoder.input_embedding)
    x = builder.linear(embedded, encoder.widen.weight, encoder.widen.bias)
    before = encoder.padding[2]
    D = builder.widths[x]
    for convolution in encoder.layers:
        window = builder.register(convolution.kernel_size * D)
        builder.add(
            "window", x, window, size=D, extent=convolution.kernel_size, column=before
        )
        builder.mix(_gated(builder, convolution, window), x, SQRT_HALF, target=x)
    outputs = builder.linear(x, encoder.narrow.weight, encoder.narrow.bias)
    return EncoderProgram(builder.build(), outputs, embedded)


def memory_program(
    decoder: ConvolutionalDecoder, size: int, embedded: int, precision: Precision
) -> tuple[Program, int]:
    """Build the program that projects encoder outputs to the attention memories of all layers.

    The values are projected from the sum of outputs and source embeddings. Returns also the size of
    a memory entry in numbers.
    """
    builder = Builder(precision)
    outputs = builder.register(size)
    embeddings = builder.register(embedded)
    values = builder.mix(
        outputs, _fitted(builder, decoder.fit_source, embeddings), SQRT_HALF
    )
    attentions = (layer.cross_attention for layer in decoder.layers)
    entry = emit_memories(builder, attentions, outputs, values)
    return builder.build(), entry


def step_program(
    decoder: ConvolutionalDecoder, precision: Precision
) -> tuple[Program, int, int]:
    """Build the program of one decoding step.

    Returns also the register of the features, and the size of a block in numbers. A block holds the
    input of each layer, which later steps read through their convolution windows.
    """
    builder = Builder(precision)
    offset = 0
    embedded = emit_embedding(builder, decoder.input_embedding)
    x = builder.linear(embedded, decoder.widen.weight, decoder.widen.bias)
    target = _fitted(builder, decoder.fit_target, embedded)
    D = builder.widths[x]
    for i, layer in enumerate(decoder.layers):
        window = builder.register(layer.convolution.kernel_size * D)
        builder.add("store_block", x, column=0, size=D, offset=i * D)
        builder.add(
            "past_window",
            x,
            window,
            size=D,
            extent=layer.convolution.kernel_size,
            offset=i * D,
        )
        y = _gated(builder, layer.convolution, window)
        query_source = builder.mix(
            builder.linear(y, layer.query_in.weight, layer.query_in.bias),
            target,
            SQRT_HALF,
        )
        size = builder.widths[query_source]
        query = emit_query(builder, layer.cross_attention, query_source, 0, size)
        context = builder.register(size)
        emit_cross_attention(
            builder,
            layer.cross_attention,
            query,
            context,
            0,
            size,
            offset,
            times_root_length=True,
        )
        offset += builder.widths[query] + size
        builder.mix(
            builder.linear(context, layer.context_out.weight, layer.context_out.bias),
            y,
            SQRT_HALF,
            target=y,
        )
        builder.mix(y, x, SQRT_HALF, target=x)
    features = builder.linear(x, decoder.narrow.weight, decoder.narrow.bias)
    return builder.build(), features, D * len(decoder.layers)


def _gated(builder: Builder, convolution: GatedConvolution, window: int) -> int:
    """Apply a convolution to windows laid side by side, then a gated linear unit."""
    both = builder.linear(window, convolution.linear.weight, convolution.linear.bias)
    gated = builder.register(builder.widths[both] // 2)
    builder.add("glu", both, gated, size=builder.widths[gated])
    return gated


def _fitted(builder: Builder, fit: nn.Module, source: int) -> int:
    """Project a register to another size, if the layer does."""
    if not isinstance(fit, WeightNormLinear):
        return source
    return builder.linear(source, fit.weight, fit.bias)
