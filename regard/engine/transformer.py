"""The Transformer as programs: to read sentences, to prepare what a decoder reads of them, to take one step."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from regard.attention import Attention
from regard.engine.attention_ops import (
    emit_attention,
    emit_directions,
    emit_memory,
    emit_query,
    heads_of,
    scale,
    why_not_emitted,
)
from regard.engine.program import Builder, EncoderProgram, Precision, Program
from regard.layers.feedforward import FeedForward, swiglu
from regard.models.transformer import TransformerDecoder, TransformerEncoder

__all__ = ["encoder_program", "memory_program", "step_program", "why_not"]

ACTIVATIONS: dict[Any, str] = {F.relu: "relu", F.gelu: "gelu", F.silu: "silu", swiglu: "none"}


def why_not(module: TransformerEncoder | TransformerDecoder) -> str | None:
    """What of this encoder or decoder the programs cannot do; None where they can do all."""
    for name, part in module.named_modules():
        if isinstance(part, Attention) and (reason := why_not_emitted(part)) is not None:
            return f"{name} {reason}, which has no program"
        if isinstance(part, FeedForward) and part.activation not in ACTIVATIONS:
            return f"{name} has an activation that has no program"
    return None


def encoder_program(encoder: TransformerEncoder, precision: Precision) -> EncoderProgram:
    """Pieces of many sentences, one after another, into what the encoder says of each."""
    b = Builder(precision)
    x = _entrance(b, encoder)
    D = b.widths[x]
    embedded, y, own_all, read = (b.register(n) for n in (D, D, 3 * D, D))
    b.add("copy", x, embedded, place=0, at=0, size=D)
    for layer in encoder.layers:
        own: Any = layer
        z = _enter(b, own.self_attention_residual, x, y)
        _ask_itself(b, own.self_attention, z, own_all)
        b.add("attend_sentence", own_all, read, entry=own.window or 0, size=D, **_products(own.self_attention))
        _leave(b, own.self_attention_residual, x, read, own.self_attention.output)
        _feedforward(b, own, x, y)
    _exit(b, encoder, x)
    return EncoderProgram(b.program(), x, embedded)


def memory_program(decoder: TransformerDecoder, size: int, embedded: int, precision: Precision) -> tuple[Program, int]:  # noqa: ARG001
    """What an encoder says into the memories of all layers; and the numbers that one entry takes."""
    b, place = Builder(precision), 0
    said = b.register(size)
    for layer in decoder.layers:
        own: Any = layer
        place += emit_memory(b, own.cross_attention, said, place)
    return b.program(), place


def step_program(decoder: TransformerDecoder, precision: Precision) -> tuple[Program, int, int]:
    """One piece of each hypothesis into its features; the register they are in, and the numbers of a block."""
    b = Builder(precision)
    x = _entrance(b, decoder)
    D = b.widths[x]
    y, own_past, read = (b.register(n) for n in (D, 3 * D, D))
    place = 0
    for i, layer in enumerate(decoder.layers):
        own: Any = layer
        z = _enter(b, own.self_attention_residual, x, y)
        _ask_itself(b, own.self_attention, z, own_past)
        b.add("store", own_past, at=D, size=2 * D, place=2 * D * i)
        read_by = _products(own.self_attention)
        b.add("attend_past", own_past, read, entry=own.window or 0, size=D, place=2 * D * i, **read_by)
        _leave(b, own.self_attention_residual, x, read, own.self_attention.output)
        z = _enter(b, own.cross_attention_residual, x, y)
        query = emit_query(b, own.cross_attention, z, 0, D)
        emit_attention(b, own.cross_attention, query, read, 0, D, place)
        place += b.widths[query] + D
        _leave(b, own.cross_attention_residual, x, read, own.cross_attention.output)
        _feedforward(b, own, x, y)
    _exit(b, decoder, x)
    return b.program(), x, 2 * D * len(decoder.layers)


def _entrance(b: Builder, side: TransformerEncoder | TransformerDecoder) -> int:
    entrance = side.entrance
    if entrance.places is None:
        return b.embed(entrance.embedding.weight, entrance.embedding.scale)
    kept = copy.deepcopy(entrance.places)

    def places(count: int) -> Any:
        return kept(torch.arange(count)[None])[0].detach().numpy()

    return b.embed(entrance.embedding.weight, entrance.embedding.scale, places)


def _exit(b: Builder, side: TransformerEncoder | TransformerDecoder, x: int) -> None:
    if isinstance(side.norm, nn.LayerNorm):
        b.norm(x, side.norm, x)


def _enter(b: Builder, around: Any, x: int, y: int) -> int:
    return b.norm(x, around.norm, y) if around.pre else x


def _leave(b: Builder, around: Any, x: int, change: int, layer: nn.Linear) -> None:
    b.linear(change, layer.weight, layer.bias, plus=x, to=x)
    if not around.pre:
        b.norm(x, around.norm, x)


def _feedforward(b: Builder, layer: Any, x: int, y: int) -> None:
    network: FeedForward = layer.feedforward
    z = _enter(b, layer.feedforward_residual, x, y)
    inner = b.linear(z, network.widen.weight, network.widen.bias, bend=ACTIVATIONS[network.activation])
    if network.activation is swiglu:
        both, inner = inner, b.register(b.widths[inner] // 2)
        b.add("glu", both, inner, size=b.widths[inner], bend="silu")
    _leave(b, layer.feedforward_residual, x, inner, network.narrow)


def _products(read: Attention) -> dict[str, Any]:
    return {"heads": read.heads, "scale": scale(read)}


def _ask_itself(b: Builder, read: Attention, source: int, to: int) -> None:
    """Query, key and value side by side in one register."""
    b.linear(source, *heads_of(read), to=to)
    D = read.size
    emit_directions(b, read, to, 0, D, asking=True)
    emit_directions(b, read, to, D, D)
