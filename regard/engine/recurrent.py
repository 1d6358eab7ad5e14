"""The recurrent decoder with attention as programs."""

from __future__ import annotations

import math
from typing import Any

import torch

from regard.attention import Read
from regard.attention.scores import Additive, ScaledDot
from regard.engine.program import Builder, EncoderProgram, Precision, Program
from regard.layers.recurrent import GRU, LSTM
from regard.models.recurrent import RecurrentDecoder, RecurrentEncoder

__all__ = ["encoder_program", "encoder_why_not", "first_program", "memory_program", "step_program", "why_not"]

CELLS: dict[Any, str] = {GRU: "gru", LSTM: "lstm"}
_WEIGHTS = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")


def why_not(decoder: RecurrentDecoder) -> str | None:
    """What of this decoder the programs cannot do; None where they can do all."""
    if decoder.order != "bahdanau":
        return f"the decoder reads in the order {decoder.order}, and only bahdanau has a program"
    score = type(decoder.read.score)
    if score not in (Additive, ScaledDot):
        return f"the decoder reads by {score.__name__}, and only additive and scaled dot scores have a program"
    cell = type(decoder.cells[0])
    if cell not in CELLS:
        return f"the decoder's cell {cell.__name__} has no program"
    return None


def encoder_why_not(encoder: RecurrentEncoder) -> str | None:
    """What of this encoder the programs cannot do; None where they can do all."""
    return None if encoder.cell in CELLS else f"the encoder's cell {encoder.cell.__name__} has no program"


def encoder_program(encoder: RecurrentEncoder, precision: Precision) -> EncoderProgram:
    """Pieces of many sentences, one after another, into the states at each."""
    b = Builder(precision)
    x, states = b.embed(encoder.embedding.weight, encoder.embedding.scale), list[tuple[int, ...]]()
    for layer in encoder.networks:
        network: Any = layer
        ways = ("_l0", "_l0_reverse") if network.bidirectional else ("_l0",)
        H = network.hidden_size
        hidden, cells = b.register(len(ways) * H), b.register(len(ways) * H)
        for i, way in enumerate(ways):
            weight, bias, *own = (getattr(network, name + way) for name in _WEIGHTS)
            said = b.linear(x, weight, bias)
            kind = CELLS[encoder.cell]
            b.recur(kind, said, (own[0], own[1]), to=hidden, cells=cells, at=i * H, backwards=i > 0)
        x = hidden
        states.append((hidden, cells)[: encoder.cell.states])
    order = tuple(layer[s] for s in range(encoder.cell.states) for layer in states)
    return EncoderProgram(b.program(), x, order, H)


def memory_program(decoder: RecurrentDecoder, size: int, precision: Precision) -> tuple[Program, int]:
    """What an encoder says into the memory; and the numbers that one entry takes."""
    b, read = Builder(precision), decoder.read
    said = b.register(size)
    keys = b.linear(said, read.key.weight, read.key.bias)  # type: ignore[arg-type]
    b.add("memorise", keys, extra=said, at=0, size=size, entry=read.size, place=0)
    return b.program(), read.size + size


def step_program(decoder: RecurrentDecoder, precision: Precision) -> tuple[Program, int, int]:
    """One piece of each hypothesis into its features; the register they are in, and the numbers of a block."""
    b, read, cells = Builder(precision), decoder.read, list(decoder.cells)
    first: Any = cells[0]
    E, Dv, top = first.size, read.value_size, (len(cells) - 1) * first.size
    width = len(cells) * first.states * E
    states = b.register(width)
    b.add("state", to=states, size=width)
    embedded = b.embed(decoder.embedding.weight, decoder.embedding.scale, None)
    told = b.register(E + Dv + b.widths[embedded])  # the top state, what was read, the piece
    query = b.linear(states, read.query.weight, read.query.bias, place=top)  # type: ignore[arg-type]
    _read(b, read, query, told, E, Dv)
    said = b.linear(embedded, first.input.weight, first.input.bias)
    b.linear(told, decoder.context.weight, place=E, plus=said, to=said)
    heard = b.register(b.widths[said])
    for i, layer in enumerate(cells):
        cell: Any = layer
        if i:
            b.linear(states, cell.input.weight, cell.input.bias, place=(i - 1) * E, to=said)
        b.linear(states, cell.hidden.weight, cell.hidden.bias, place=i * E, to=heard)
        b.add(CELLS[type(cell)], said, states, extra=heard, at=i * E, place=(i + len(cells)) * E, size=E)
    b.add("store", states, at=0, size=width, place=0)
    b.add("copy", states, told, place=top, at=0, size=E)
    b.add("copy", embedded, told, place=0, at=E + Dv, size=b.widths[embedded])
    features = b.linear(told, decoder.readout.weight, decoder.readout.bias, bend="tanh")
    return b.program(), features, width


def first_program(decoder: RecurrentDecoder, rows: int, size: int, precision: Precision) -> Program:
    """A summary of `rows` vectors, side by side, into the states before the first piece."""
    b, first = Builder(precision), decoder.cells[0]
    E = int(first.size)  # type: ignore[arg-type]
    summary, states = b.register(rows * size), b.register(len(decoder.bridges) * E)
    for i, bridge in enumerate(decoder.bridges):
        place = i * rows // len(decoder.bridges) * size
        b.linear(summary, bridge.weight, bridge.bias, bend="tanh", place=place, to=states, at=i * E)  # type: ignore[arg-type]
    b.add("store", states, at=0, size=b.widths[states], place=0)
    return b.program()


def _read(b: Builder, read: Read, query: int, told: int, at: int, size: int) -> None:
    if isinstance(read.score, Additive):
        table: torch.Tensor = read.score.vector
        b.add("additive", query, told, at=at, size=size, entry=read.size, table=table)
    else:
        scale = 1 / math.sqrt(read.size)
        b.add("attend_source", query, told, at=at, size=size, entry=read.size, heads=1, scale=scale)
