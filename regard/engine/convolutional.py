"""The convolutional encoder and decoder as programs."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from regard.engine.attention_ops import emit_attention, emit_memory, emit_query, why_not_emitted
from regard.engine.program import Builder, EncoderProgram, Precision, Program
from regard.layers.convolution import SQRT_HALF, GatedConvolution
from regard.models.convolutional import ConvolutionalDecoder, ConvolutionalEncoder

__all__ = ["encoder_program", "memory_program", "step_program", "why_not"]


def why_not(decoder: ConvolutionalDecoder) -> str | None:
    """What of this decoder the programs cannot do; None where they can do all."""
    first: Any = decoder.layers[0]
    reason = why_not_emitted(first.cross_attention)
    return None if reason is None else f"the decoder {reason}, which has no program"


def encoder_program(encoder: ConvolutionalEncoder, precision: Precision) -> EncoderProgram:
    """Pieces of many sentences, one after another, into what the encoder says of each."""
    b = Builder(precision)
    embedded = _entrance(b, encoder)
    x = b.linear(embedded, encoder.widen.weight, encoder.widen.bias)
    before, D = encoder.around[2], b.widths[x]
    for layer in encoder.layers:
        convolution: Any = layer
        near = b.register(convolution.width * D)
        b.add("near", x, near, size=D, entry=convolution.width, at=before)
        b.mix(_gated(b, convolution, near), x, SQRT_HALF, to=x)
    told = b.linear(x, encoder.narrow.weight, encoder.narrow.bias)
    return EncoderProgram(b.program(), told, embedded)


def memory_program(
    decoder: ConvolutionalDecoder, size: int, embedded: int, precision: Precision
) -> tuple[Program, int]:
    """What an encoder says into the memories of all layers: values add the embeddings it began with."""
    b, place = Builder(precision), 0
    said, began = b.register(size), b.register(embedded)
    values = b.mix(said, _fitted(b, decoder.fit_source, began), SQRT_HALF)
    for layer in decoder.layers:
        own: Any = layer
        place += emit_memory(b, own.cross_attention, said, place, values)
    return b.program(), place


def step_program(decoder: ConvolutionalDecoder, precision: Precision) -> tuple[Program, int, int]:
    """One piece of each hypothesis into its features; the register they are in, and the numbers of a block.

    A block holds what each layer was given: the windows of the steps to come.
    """
    b, place = Builder(precision), 0
    embedded = _entrance(b, decoder)
    x = b.linear(embedded, decoder.widen.weight, decoder.widen.bias)
    target, D = _fitted(b, decoder.fit_target, embedded), b.widths[x]
    for i, layer in enumerate(decoder.layers):
        own: Any = layer
        near = b.register(own.convolution.width * D)
        b.add("store", x, at=0, size=D, place=i * D)
        b.add("near_past", x, near, size=D, entry=own.convolution.width, place=i * D)
        y = _gated(b, own.convolution, near)
        wanted = b.mix(b.linear(y, own.query_in.weight, own.query_in.bias), target, SQRT_HALF)
        size = b.widths[wanted]
        query, found = emit_query(b, own.cross_attention, wanted, 0, size), b.register(size)
        emit_attention(b, own.cross_attention, query, found, 0, size, place, as_large=True)
        place += b.widths[query] + size
        b.mix(b.linear(found, own.context_out.weight, own.context_out.bias), y, SQRT_HALF, to=y)
        b.mix(y, x, SQRT_HALF, to=x)
    features = b.linear(x, decoder.narrow.weight, decoder.narrow.bias)
    return b.program(), features, D * len(decoder.layers)


def _entrance(b: Builder, side: ConvolutionalEncoder | ConvolutionalDecoder) -> int:
    kept = copy.deepcopy(side.entrance.places)

    def places(count: int) -> Any:
        return kept(torch.arange(count)[None])[0].detach().numpy()

    return b.embed(side.embedding.weight, side.embedding.scale, places)


def _gated(b: Builder, convolution: GatedConvolution, near: int) -> int:
    both = b.linear(near, convolution.linear.weight, convolution.linear.bias)
    gated = b.register(b.widths[both] // 2)
    b.add("glu", both, gated, size=b.widths[gated])
    return gated


def _fitted(b: Builder, fit: nn.Module, source: int) -> int:
    weighed: Any = fit
    return source if isinstance(fit, nn.Identity) else b.linear(source, weighed.weight, weighed.bias)
