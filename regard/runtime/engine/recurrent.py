"""Kernel programs of recurrent encoders and decoders, with attention before or after each step, or
none.
"""

from __future__ import annotations

from regard.layers.cells import GRU, LSTM, Elman
from regard.models.recurrent import (
    NoAttentionDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
)
from regard.runtime.engine.attention_ops import (
    emit_cross_attention,
    emit_memories,
    emit_query,
    why_not_emitted,
)
from regard.runtime.engine.program import Builder, EncoderProgram, Precision, Program

AnyDecoder = RecurrentDecoder | NoAttentionDecoder
CELLS: dict[object, str] = {GRU: "gru", LSTM: "lstm", Elman: "tanh"}
_WEIGHTS = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")


def why_not(decoder: AnyDecoder) -> str | None:
    """Return which part of the decoder has no program; None if every part has one."""
    if isinstance(decoder, RecurrentDecoder):
        reason = why_not_emitted(decoder.cross_attention)
        if reason is not None:
            return f"the decoder {reason}, which has no program"
    cell = type(decoder.cells[0])
    if cell not in CELLS:
        return f"the decoder's cell {cell.__name__} has no program"
    return None


def encoder_program(encoder: RecurrentEncoder, precision: Precision) -> EncoderProgram:
    """Build the program of the encoder, whose input is sentences laid end to end."""
    builder = Builder(precision)
    embedded = x = builder.embed(encoder.embedding.weight, encoder.embedding.scale)
    states = list[tuple[int, ...]]()
    H = 0
    for network in encoder.layers:
        directions = ("_l0", "_l0_reverse") if network.bidirectional else ("_l0",)
        H = network.hidden_size
        hidden = builder.register(len(directions) * H)
        cells = builder.register(len(directions) * H)
        for i, direction in enumerate(directions):
            input_weight, input_bias, hidden_weight, hidden_bias = (
                getattr(network, name + direction) for name in _WEIGHTS
            )
            gates = builder.linear(x, input_weight, input_bias)
            builder.rnn(
                CELLS[encoder.cell],
                gates,
                (hidden_weight, hidden_bias),
                target=hidden,
                cells=cells,
                column=i * H,
                backwards=i > 0,
            )
        x = hidden
        states.append((hidden, cells)[: encoder.cell.states])

    # The decoder reads the hidden states of all layers first, then their cell states.
    order = tuple(
        layer_states[s] for s in range(encoder.cell.states) for layer_states in states
    )
    return EncoderProgram(builder.build(), x, embedded, order, H)


def memory_program(
    decoder: AnyDecoder,
    size: int,
    embedded: int,  # noqa: ARG001
    precision: Precision,
) -> tuple[Program, int] | None:
    """Build the program that projects encoder outputs to the attention memory; None without
    attention.

    Returns also the size of a memory entry, in numbers.
    """
    if not isinstance(decoder, RecurrentDecoder):
        return None
    builder = Builder(precision)
    entry = emit_memories(builder, [decoder.cross_attention], builder.register(size))
    return builder.build(), entry


def initial_program(
    decoder: AnyDecoder, rows: int, size: int, precision: Precision
) -> Program:
    """Build the program that computes the decoder's initial state.

    Its input is the encoder's summary: `rows` vectors of `size` numbers, side by side.
    """
    builder = Builder(precision)
    count = len(decoder.bridges)
    E, top, width = _sizes(decoder)
    summary = builder.register(rows * size)
    states = builder.register(width)
    for i, bridge in enumerate(decoder.bridges):
        offset = 0
        if isinstance(decoder, RecurrentDecoder):
            offset = i * rows // count * size
        builder.linear(
            summary,
            bridge.weight,
            bridge.bias,
            activation="tanh",
            offset=offset,
            target=states,
            column=i * E,
        )

    builder.add("store_block", states, column=0, size=width, offset=0)
    if isinstance(decoder, NoAttentionDecoder) and decoder.every:
        builder.add("store_block", states, column=top, size=E, offset=width)
    return builder.build()


def step_program(decoder: AnyDecoder, precision: Precision) -> tuple[Program, int, int]:
    """Build the program of one decoding step.

    Returns also the register of the features, and the size of a block in numbers. A block holds the
    state that is carried to the next step: the recurrent states, followed by the features if the
    decoder uses input feeding, or by the context if it has no attention.
    """
    builder = Builder(precision)
    width = _sizes(decoder)[2]
    states = builder.register(width)
    builder.add("load_state", target=states, size=width, offset=0)
    embedded = builder.embed(decoder.embedding.weight, decoder.embedding.scale)
    if isinstance(decoder, NoAttentionDecoder):
        readout, carried = _step_without_attention(builder, decoder, states, embedded)
    elif decoder.order == "bahdanau":
        readout = _attend_then_step(builder, decoder, states, embedded)
        carried = 0
    else:
        readout, carried = _step_then_attend(builder, decoder, states, embedded)
    builder.add("store_block", states, column=0, size=width, offset=0)
    features = builder.linear(
        readout, decoder.readout.weight, decoder.readout.bias, activation="tanh"
    )
    if isinstance(decoder, RecurrentDecoder) and decoder.order == "luong_input_feeding":
        builder.add("store_block", features, column=0, size=carried, offset=width)
    return builder.build(), features, width + carried


def _sizes(decoder: AnyDecoder) -> tuple[int, int, int]:
    """Return the size of one state, the first column of the top layer's state, and the size of all
    states.
    """
    first = decoder.cells[0]
    return (
        first.size,
        (len(decoder.cells) - 1) * first.size,
        len(decoder.cells) * first.states * first.size,
    )


def _attend_then_step(
    builder: Builder, decoder: RecurrentDecoder, states: int, embedded: int
) -> int:
    """Attend with the previous state, then step (Bahdanau).

    Returns the register of top state, context and embedding, side by side.
    """
    E, top, _ = _sizes(decoder)
    attention = decoder.cross_attention
    De = builder.widths[embedded]
    readout = builder.register(E + attention.value_size + De)
    _attend(builder, decoder, states, readout)
    gates = _input_gates(builder, decoder, embedded)
    builder.linear(
        readout, decoder.context_proj.weight, offset=E, plus=gates, target=gates
    )
    _step_cells(builder, decoder, gates, states)
    builder.add("copy", states, readout, offset=top, column=0, size=E)
    builder.add(
        "copy", embedded, readout, offset=0, column=E + attention.value_size, size=De
    )
    return readout


def _step_then_attend(
    builder: Builder, decoder: RecurrentDecoder, states: int, embedded: int
) -> tuple[int, int]:
    """Step, then attend with the new state (Luong).

    Returns the register of top state and context, and the size of the features that input feeding
    carries to the next step.
    """
    E, top, width = _sizes(decoder)
    carried = 0
    gates = _input_gates(builder, decoder, embedded)
    if decoder.order == "luong_input_feeding":
        carried = decoder.context_proj.in_features
        fed = builder.register(carried)
        builder.add("load_state", target=fed, size=carried, offset=width)
        builder.linear(fed, decoder.context_proj.weight, plus=gates, target=gates)
    _step_cells(builder, decoder, gates, states)
    readout = builder.register(E + decoder.cross_attention.value_size)
    builder.add("copy", states, readout, offset=top, column=0, size=E)
    _attend(builder, decoder, states, readout)
    return readout, carried


def _attend(
    builder: Builder, decoder: RecurrentDecoder, states: int, readout: int
) -> None:
    """Attend with the top state, and write the context beside the state in `readout`.

    The context is multiplied by its gate if the decoder has one.
    """
    E, top, _ = _sizes(decoder)
    attention = decoder.cross_attention
    query = emit_query(builder, attention, states, top, E)
    emit_cross_attention(builder, attention, query, readout, E, attention.value_size, 0)
    if decoder.gate is not None:
        logit = builder.linear(
            states, decoder.gate.weight, decoder.gate.bias, offset=top
        )
        builder.add("gate", logit, readout, column=E, size=attention.value_size)


def _step_without_attention(
    builder: Builder, decoder: NoAttentionDecoder, states: int, embedded: int
) -> tuple[int, int]:
    """Step a decoder without attention.

    Returns the register of the top state, and the size of the context. If the context enters every
    step, the register also holds embedding and context.
    """
    E, top, width = _sizes(decoder)
    De = builder.widths[embedded]
    carried = E if decoder.every else 0
    readout = builder.register(E + De + carried if decoder.every else E)
    if decoder.every:
        builder.add("copy", embedded, readout, offset=0, column=E, size=De)
        builder.add(
            "load_state", target=readout, column=E + De, size=carried, offset=width
        )
        builder.add("store_block", readout, column=E + De, size=carried, offset=width)
        first = decoder.cells[0]
        gates = builder.linear(readout, first.input.weight, first.input.bias, offset=E)
    else:
        gates = _input_gates(builder, decoder, embedded)
    _step_cells(builder, decoder, gates, states)
    builder.add("copy", states, readout, offset=top, column=0, size=E)
    return readout, carried


def _input_gates(builder: Builder, decoder: AnyDecoder, embedded: int) -> int:
    """Project the embedding to the gates of the first layer."""
    first = decoder.cells[0]
    return builder.linear(embedded, first.input.weight, first.input.bias)


def _step_cells(builder: Builder, decoder: AnyDecoder, gates: int, states: int) -> None:
    """Step every layer in place; `gates` is the input projection of the first layer."""
    hidden_gates = builder.register(builder.widths[gates])
    E = _sizes(decoder)[0]
    for i, cell in enumerate(decoder.cells):
        if i:
            builder.linear(
                states,
                cell.input.weight,
                cell.input.bias,
                offset=(i - 1) * E,
                target=gates,
            )
        builder.linear(
            states,
            cell.hidden.weight,
            cell.hidden.bias,
            offset=i * E,
            target=hidden_gates,
        )
        kind = CELLS[type(cell)]
        cell_state = (i + len(decoder.cells)) * E
        builder.add(
            kind,
            gates,
            states,
            extra=hidden_gates,
            column=i * E,
            offset=cell_state,
            size=E,
        )
