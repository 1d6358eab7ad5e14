"""Recurrent encoders and decoders as programs: with attention before or after each step, and without any."""

from __future__ import annotations

from typing import Any

from regard.engine.attention_ops import emit_attention, emit_memory, emit_query, why_not_emitted
from regard.engine.program import Builder, EncoderProgram, Precision, Program
from regard.layers.cells import GRU, LSTM, Elman
from regard.models.recurrent import NoAttentionDecoder, RecurrentDecoder, RecurrentEncoder

__all__ = ["encoder_program", "encoder_why_not", "first_program", "memory_program", "step_program", "why_not"]

AnyDecoder = RecurrentDecoder | NoAttentionDecoder
CELLS: dict[Any, str] = {GRU: "gru", LSTM: "lstm", Elman: "tanh"}
_WEIGHTS = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")


def why_not(decoder: AnyDecoder) -> str | None:
    """What of this decoder the programs cannot do; None where they can do all."""
    if isinstance(decoder, RecurrentDecoder) and (reason := why_not_emitted(decoder.cross_attention)) is not None:
        return f"the decoder {reason}, which has no program"
    cell = type(decoder.cells[0])
    return None if cell in CELLS else f"the decoder's cell {cell.__name__} has no program"


def encoder_why_not(encoder: RecurrentEncoder) -> str | None:
    """What of this encoder the programs cannot do; None where they can do all."""
    return None if encoder.cell in CELLS else f"the encoder's cell {encoder.cell.__name__} has no program"


def encoder_program(encoder: RecurrentEncoder, precision: Precision) -> EncoderProgram:
    """Pieces of many sentences, one after another, into the states at each."""
    b = Builder(precision)
    embedded = x = b.embed(encoder.embedding.weight, encoder.embedding.scale)
    states, H = list[tuple[int, ...]](), 0
    for layer in encoder.networks:
        network: Any = layer
        ways = ("_l0", "_l0_reverse") if network.bidirectional else ("_l0",)
        H = network.hidden_size
        hidden, cells = b.register(len(ways) * H), b.register(len(ways) * H)
        for i, way in enumerate(ways):
            weight, bias, *own = (getattr(network, name + way) for name in _WEIGHTS)
            said = b.linear(x, weight, bias)
            b.recur(CELLS[encoder.cell], said, (own[0], own[1]), to=hidden, cells=cells, at=i * H, backwards=i > 0)
        x = hidden
        states.append((hidden, cells)[: encoder.cell.states])
    order = tuple(layer[s] for s in range(encoder.cell.states) for layer in states)
    return EncoderProgram(b.program(), x, embedded, order, H)


def memory_program(
    decoder: AnyDecoder,
    size: int,
    embedded: int,  # noqa: ARG001
    precision: Precision,
) -> tuple[Program, int] | None:
    """What an encoder says into the memory, and the numbers that one entry takes; None where nothing is read."""
    if not isinstance(decoder, RecurrentDecoder):
        return None
    b = Builder(precision)
    entry = emit_memory(b, decoder.cross_attention, b.register(size), 0)
    return b.program(), entry


def first_program(decoder: AnyDecoder, rows: int, size: int, precision: Precision) -> Program:
    """A summary of `rows` vectors, side by side, into the block before the first piece."""
    b, count = Builder(precision), len(decoder.bridges)
    E, top, width = _sizes(decoder)
    summary, states = b.register(rows * size), b.register(width)
    for i, layer in enumerate(decoder.bridges):
        bridge: Any = layer
        place = i * rows // count * size if isinstance(decoder, RecurrentDecoder) else 0
        b.linear(summary, bridge.weight, bridge.bias, bend="tanh", place=place, to=states, at=i * E)
    b.add("store", states, at=0, size=width, place=0)
    if isinstance(decoder, NoAttentionDecoder) and decoder.every:
        b.add("store", states, at=top, size=E, place=width)
    return b.program()


def step_program(decoder: AnyDecoder, precision: Precision) -> tuple[Program, int, int]:
    """One piece of each hypothesis into its features; the register they are in, and the numbers of a block.

    A block holds the states, and after them what goes from step to step beside them: the features that are fed back,
    or the context of a decoder that reads nothing.
    """
    b = Builder(precision)
    width = _sizes(decoder)[2]
    states = b.register(width)
    b.add("state", to=states, size=width, place=0)
    embedded = b.embed(decoder.embedding.weight, decoder.embedding.scale)
    if isinstance(decoder, NoAttentionDecoder):
        told, beside = _plain(b, decoder, states, embedded)
    elif decoder.order == "bahdanau":
        told, beside = _read_then_step(b, decoder, states, embedded), 0
    else:
        told, beside = _step_then_read(b, decoder, states, embedded)
    b.add("store", states, at=0, size=width, place=0)
    features = b.linear(told, decoder.readout.weight, decoder.readout.bias, bend="tanh")
    if isinstance(decoder, RecurrentDecoder) and decoder.order == "luong_input_feeding":
        b.add("store", features, at=0, size=beside, place=width)
    return b.program(), features, width + beside


def _sizes(decoder: AnyDecoder) -> tuple[int, int, int]:
    """The size of one state, where that of the highest layer begins, and the size of all."""
    first: Any = decoder.cells[0]
    return first.size, (len(decoder.cells) - 1) * first.size, len(decoder.cells) * first.states * first.size


def _read_then_step(b: Builder, decoder: RecurrentDecoder, states: int, embedded: int) -> int:
    """What the features are made of: the highest state, what was read before the step, the piece."""
    E, top, _ = _sizes(decoder)
    read, De = decoder.cross_attention, b.widths[embedded]
    told = b.register(E + read.value_size + De)
    emit_attention(b, read, emit_query(b, read, states, top, E), told, E, read.value_size, 0)
    _gate(b, decoder, states, told)
    said = _input(b, decoder, embedded)
    b.linear(told, decoder.context.weight, place=E, plus=said, to=said)
    _cells(b, decoder, said, states)
    b.add("copy", states, told, place=top, at=0, size=E)
    b.add("copy", embedded, told, place=0, at=E + read.value_size, size=De)
    return told


def _step_then_read(b: Builder, decoder: RecurrentDecoder, states: int, embedded: int) -> tuple[int, int]:
    """The highest state and what was read after the step; and the numbers that are fed back."""
    E, top, width = _sizes(decoder)
    read, beside = decoder.cross_attention, 0
    said = _input(b, decoder, embedded)
    if decoder.order == "luong_input_feeding":
        beside = decoder.context.in_features
        fed = b.register(beside)
        b.add("state", to=fed, size=beside, place=width)
        b.linear(fed, decoder.context.weight, plus=said, to=said)
    _cells(b, decoder, said, states)
    told = b.register(E + read.value_size)
    b.add("copy", states, told, place=top, at=0, size=E)
    emit_attention(b, read, emit_query(b, read, states, top, E), told, E, read.value_size, 0)
    _gate(b, decoder, states, told)
    return told, beside


def _gate(b: Builder, decoder: RecurrentDecoder, states: int, told: int) -> None:
    """How much what was read counts, by the state that asked."""
    if decoder.gate is not None:
        E, top, _ = _sizes(decoder)
        logit = b.linear(states, decoder.gate.weight, decoder.gate.bias, place=top)
        b.add("gate", logit, told, at=E, size=decoder.cross_attention.value_size)


def _plain(b: Builder, decoder: NoAttentionDecoder, states: int, embedded: int) -> tuple[int, int]:
    """The highest state, with the piece and the context if that goes into every step; and the size of the context."""
    E, top, width = _sizes(decoder)
    De, beside = b.widths[embedded], E if decoder.every else 0
    told = b.register(E + (De + beside) * decoder.every)
    if decoder.every:
        b.add("copy", embedded, told, place=0, at=E, size=De)
        b.add("state", to=told, at=E + De, size=beside, place=width)
        b.add("store", told, at=E + De, size=beside, place=width)
        first: Any = decoder.cells[0]
        said = b.linear(told, first.input.weight, first.input.bias, place=E)
    else:
        said = _input(b, decoder, embedded)
    _cells(b, decoder, said, states)
    b.add("copy", states, told, place=top, at=0, size=E)
    return told, beside


def _input(b: Builder, decoder: AnyDecoder, embedded: int) -> int:
    first: Any = decoder.cells[0]
    return b.linear(embedded, first.input.weight, first.input.bias)


def _cells(b: Builder, decoder: AnyDecoder, said: int, states: int) -> None:
    """One step of every layer, in place; `said` is what the inputs say to the gates of the first."""
    heard, E = b.register(b.widths[said]), _sizes(decoder)[0]
    for i, layer in enumerate(decoder.cells):
        cell: Any = layer
        if i:
            b.linear(states, cell.input.weight, cell.input.bias, place=(i - 1) * E, to=said)
        b.linear(states, cell.hidden.weight, cell.hidden.bias, place=i * E, to=heard)
        b.add(CELLS[type(cell)], said, states, extra=heard, at=i * E, place=(i + len(decoder.cells)) * E, size=E)
