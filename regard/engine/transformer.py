"""The Transformer as programs: to read sentences, to prepare what a decoder reads of them, to take one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from regard.attention import Read
from regard.attention.scores import ScaledDot
from regard.engine.program import Builder, EncoderProgram, Precision, Program
from regard.layers.feedforward import FeedForward
from regard.layers.positions import sinusoids
from regard.models.transformer import TransformerDecoder, TransformerEncoder

__all__ = ["encoder_program", "memory_program", "step_program", "why_not"]

BENDS: dict[Any, str] = {F.relu: "relu", F.gelu: "gelu", F.silu: "silu"}


def why_not(module: TransformerEncoder | TransformerDecoder) -> str | None:
    """What of this encoder or decoder the programs cannot do; None where they can do all."""
    for name, part in module.named_modules():
        if isinstance(part, Read) and type(part.score) is not ScaledDot:
            return f"{name} reads by {type(part.score).__name__}, and only scaled dot products have a program"
        if isinstance(part, FeedForward) and part.activation not in BENDS:
            return f"{name} has an activation that has no program"
    return None


def encoder_program(encoder: TransformerEncoder, precision: Precision) -> EncoderProgram:
    """Pieces of many sentences, one after another, into what the encoder says of each."""
    b = Builder(precision)
    x = _entrance(b, encoder)
    D = b.widths[x]
    y, asked, read, inner = b.register(D), b.register(3 * D), b.register(D), b.register(_inner(encoder))
    for layer in encoder.layers:
        own: Any = layer
        z = _enter(b, own.around_self, x, y)
        b.linear(z, *_beside(own.self_read), to=asked)
        b.add("attend_sentence", asked, read, size=D, heads=own.self_read.heads, scale=_scale(own.self_read))
        _leave(b, own.around_self, x, read, own.self_read.output)
        _feedforward(b, own, x, y, inner)
    _exit(b, encoder, x)
    return EncoderProgram(b.program(), x)


def memory_program(decoder: TransformerDecoder, size: int, precision: Precision) -> tuple[Program, int]:
    """What an encoder says into the memories of all layers; and the numbers that one entry takes."""
    b = Builder(precision)
    said, place = b.register(size), 0
    for layer in decoder.layers:
        own: Any = layer
        read: Read = own.cross_read
        D = read.size
        weight = torch.cat([read.key.weight, read.value.weight])  # type: ignore[list-item]
        both = b.linear(said, weight, torch.cat([read.key.bias, read.value.bias]))  # type: ignore[list-item]
        b.add("memorise", both, extra=both, at=D, size=D, entry=D, place=place)
        place += 2 * D
    return b.program(), place


def step_program(decoder: TransformerDecoder, precision: Precision) -> tuple[Program, int, int]:
    """One piece of each hypothesis into its features; the register they are in, and the numbers of a block."""
    b = Builder(precision)
    x = _entrance(b, decoder)
    D = b.widths[x]
    y, asked, read, query, inner = (b.register(n) for n in (D, 3 * D, D, D, _inner(decoder)))
    for i, layer in enumerate(decoder.layers):
        own: Any = layer
        z = _enter(b, own.around_self, x, y)
        b.linear(z, *_beside(own.self_read), to=asked)
        heads, scale = own.self_read.heads, _scale(own.self_read)
        b.add("store", asked, at=D, size=2 * D, place=2 * D * i)
        b.add("attend_past", asked, read, size=D, heads=heads, scale=scale, place=2 * D * i)
        _leave(b, own.around_self, x, read, own.self_read.output)
        z = _enter(b, own.around_cross, x, y)
        b.linear(z, own.cross_read.query.weight, own.cross_read.query.bias, to=query)
        heads, scale = own.cross_read.heads, _scale(own.cross_read)
        b.add("attend_source", query, read, size=D, entry=D, heads=heads, scale=scale, place=2 * D * i)
        _leave(b, own.around_cross, x, read, own.cross_read.output)
        _feedforward(b, own, x, y, inner)
    _exit(b, decoder, x)
    return b.program(), x, 2 * D * len(decoder.layers)


def _entrance(b: Builder, side: TransformerEncoder | TransformerDecoder) -> int:
    entrance = side.entrance

    def places(count: int) -> Any:
        return sinusoids(torch.arange(count)[None], entrance.size)[0].numpy()

    return b.embed(entrance.embedding.weight, entrance.embedding.scale, places if entrance.positions else None)


def _exit(b: Builder, side: TransformerEncoder | TransformerDecoder, x: int) -> None:
    if isinstance(side.norm, nn.LayerNorm):
        b.norm(x, side.norm, x)


def _enter(b: Builder, around: Any, x: int, y: int) -> int:
    return b.norm(x, around.norm, y) if around.pre else x


def _leave(b: Builder, around: Any, x: int, change: int, layer: nn.Linear) -> None:
    b.linear(change, layer.weight, layer.bias, plus=x, to=x)
    if not around.pre:
        b.norm(x, around.norm, x)


def _feedforward(b: Builder, layer: Any, x: int, y: int, inner: int) -> None:
    network: FeedForward = layer.feedforward
    z = _enter(b, layer.around_feedforward, x, y)
    b.linear(z, network.widen.weight, network.widen.bias, bend=BENDS[network.activation], to=inner)
    _leave(b, layer.around_feedforward, x, inner, network.narrow)


def _beside(read: Read) -> tuple[torch.Tensor, torch.Tensor]:
    """Query, key and value projections as one."""
    layers: Any = (read.query, read.key, read.value)
    return torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])


def _inner(side: TransformerEncoder | TransformerDecoder) -> int:
    first: Any = side.layers[0]
    return int(first.feedforward.widen.out_features)


def _scale(read: Read) -> float:
    return float(1 / np.sqrt(read.size // read.heads))
