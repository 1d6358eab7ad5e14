"""Recurrent (RNN, GRU, LSTM) encoder and decoders.

The decoders have Bahdanau or Luong attention, with or without input feeding, or no attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import nn

from regard.attention import Attention
from regard.common.errors import ConfigurationError
from regard.common.monkey_patches import as_defined
from regard.common.settings import SIZE
from regard.common.shapes import Float, Int, Tensor
from regard.layers.cells import CELLS, Cell, CellName
from regard.layers.deferred_linear import DeferredLinear
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, OutputProjection
from regard.layers.module_list import ModuleList
from regard.layers.residual import to_autocast
from regard.layers.rnn import RNN_CLASSES, continue_rnn, run_rnn
from regard.models.coverage import attend_to_source, with_coverage
from regard.models.interface import (
    Batch,
    Decoder,
    Encoded,
    Encoder,
    EncoderSizes,
    Source,
    State,
    register_decoder,
    register_encoder,
)
from regard.models.shared_settings import (
    CrossAttentionNormaliser,
    CrossAttentionScore,
    LayerCount,
    LayerInputDropout,
    PartSettings,
    WordDropout,
)

Tensors = dict[str, Tensor]
"""Tensors of a decoder state, by name."""


class RecurrentEncoderSettings(PartSettings):
    """Recurrent encoder, unidirectional or bidirectional."""

    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = Field("gru", description="recurrent cell")
    layers: LayerCount = 1
    size: int = Field(
        256, ge=1, le=SIZE, description="size of the hidden state in each direction"
    )
    bidirectional: bool = Field(
        True, description="run in both directions and concatenate the states"
    )
    embedding: int = Field(256, ge=1, le=SIZE, description="size of the embeddings")
    dropout: LayerInputDropout = 0.3
    word_dropout: WordDropout = 0.0


class _DecoderSettings(PartSettings):
    """Settings common to the recurrent decoders."""

    cell: CellName = Field("gru", description="recurrent cell")
    layers: LayerCount = 1
    size: int = Field(512, ge=1, le=SIZE, description="size of the hidden state")
    embedding: int = Field(
        256,
        ge=1,
        le=SIZE,
        description="size of the embeddings and of the features below the output projection",
    )
    dropout: LayerInputDropout = 0.3
    word_dropout: WordDropout = 0.0


class RecurrentDecoderSettings(_DecoderSettings):
    """Recurrent decoder with attention at every step."""

    kind: Literal["recurrent"] = "recurrent"
    order: Literal["bahdanau", "luong", "luong_input_feeding"] = Field(
        "bahdanau",
        description="bahdanau: attend with the state before, then step; luong: step, then attend; "
        "luong_input_feeding: luong, and the features of a step are fed into the next "
        "(input feeding)",
    )
    score: CrossAttentionScore = "additive"
    normaliser: CrossAttentionNormaliser = "softmax"
    attention_size: int = Field(
        256,
        ge=1,
        le=SIZE,
        description="size to which state and source are projected for the score; general projects "
        "neither",
    )
    attention_projection: bool = Field(
        True,
        description="false: the score compares state and source themselves, as Luong's dot does; "
        "their sizes must then be equal",
    )
    gate: bool = Field(
        False,
        description="scale the context by a gate between 0 and 1, computed from the state",
    )

    def ablations(self) -> Iterator[str]:
        """List parts that are left out or replaced on purpose, for experiments."""
        if self.score == "cosine_plain":
            yield "score = 'cosine_plain' (no temperature, so that attention cannot be sharp)"


class NoAttentionDecoderSettings(_DecoderSettings):
    """Recurrent decoder without attention, which sees only the last states of the encoder."""

    kind: Literal["no_attention"] = "no_attention"
    context: Literal["first", "every"] = Field(
        "first",
        description="first: the encoder's last states initialise the decoder (Sutskever et al. "
        "2014); every: they also enter every step (Cho et al. 2014)",
    )
    bottleneck: int | None = Field(
        None,
        ge=1,
        le=SIZE,
        description="numbers that the encoder's last states are projected to on the way; none: all",
    )


@register_encoder("recurrent", RecurrentEncoderSettings)
@as_defined
class RecurrentEncoder(Encoder):
    """Recurrent network over the source.

    Each output is the concatenation of the hidden states of both directions.
    """

    def __init__(self, settings: RecurrentEncoderSettings, vocabulary: int) -> None:
        super().__init__()
        s = settings
        self.embedding = Embedding(vocabulary, s.embedding, scale_embedding=False)
        self.dropout = Dropout(s.dropout)
        self.word_dropout = Dropout(s.word_dropout, per_position=True)
        output_size = 2 * s.size if s.bidirectional else s.size
        self.layers = ModuleList(
            RNN_CLASSES[s.cell](
                s.embedding if i == 0 else output_size,
                s.size,
                batch_first=True,
                bidirectional=s.bidirectional,
            )
            for i in range(s.layers)
        )
        self.cell = CELLS[s.cell]
        summary_rows = s.layers * self.cell.states
        self.sizes = EncoderSizes(output_size, summary_rows, s.embedding)

    def forward(self, batch: Batch) -> Encoded:
        embedded = x = self.dropout(self.word_dropout(self.embedding(batch.data)))
        last_states: list[tuple[Tensor, ...]] = []
        for i, network in enumerate(self.layers):
            layer_input = self.dropout(x) if i else x
            x, states = run_rnn(network, self.cell, layer_input, batch.keep)
            last_states.append(states)
        summary = torch.stack(
            [states[s] for s in range(self.cell.states) for states in last_states], 1
        )
        return Encoded(self.dropout(x), embedded, summary, batch.keep)


@as_defined
class _RecurrentDecoder(Decoder):
    """Base of the recurrent decoders: layers of cells, and bridges to their first states.

    A bridge computes a first state from the encoder's summary. The states of all layers are one
    tensor (N, R, E): the hidden states of all layers, then the LSTM cells of all layers.
    """

    cells: ModuleList[Cell]
    bridges: ModuleList[nn.Linear | _Bottleneck]

    def __init__(self, settings: _DecoderSettings, vocabulary: int) -> None:
        super().__init__()
        s = settings
        self.embedding = Embedding(vocabulary, s.embedding, scale_embedding=False)
        self.dropout = Dropout(s.dropout)
        self.word_dropout = Dropout(s.word_dropout, per_position=True)
        self.states = CELLS[s.cell].states

    def _embed(self, tokens: Int[Tensor, "N T"]) -> Float[Tensor, "N T De"]:
        return self.dropout(self.word_dropout(self.embedding(tokens)))  # type: ignore[no-any-return]

    def _bridge(self, rows: list[Float[Tensor, "B D"]]) -> Float[Tensor, "B R E"]:
        """Compute the first states: each bridge maps one row to one state."""
        states = [
            torch.tanh(bridge(row))
            for bridge, row in zip(self.bridges, rows, strict=True)
        ]
        return torch.stack(states, 1).float()

    @property
    def _top(self) -> int:
        """Index of the highest layer's hidden state."""
        return len(self.cells) - 1

    def _layer_states(
        self, states: Float[Tensor, "N R E"], layer: int
    ) -> tuple[Float[Tensor, "N E"], ...]:
        """Return the states of one layer: (h,), or (h, c)."""
        return tuple(states[:, layer + len(self.cells) * s] for s in range(self.states))

    def _stack_states(self, layers: list[tuple[Tensor, ...]]) -> Float[Tensor, "N R E"]:
        """Stack the states of all layers."""
        return torch.stack(
            [states[s] for s in range(self.states) for states in layers], 1
        )

    def _step_cells(
        self,
        input_proj: Float[Tensor, "N G"],
        states: Float[Tensor, "N R E"],
        hidden_layers: list[DeferredLinear],
    ) -> Float[Tensor, "N R E"]:
        """Run one step of every layer."""
        next_states: list[tuple[Tensor, ...]] = []
        for i, cell in enumerate(self.cells):
            if i:
                input_proj = cell.input(self.dropout(next_states[-1][0]))
            layer_states = self._layer_states(states, i)
            next_states.append(cell(input_proj, layer_states, hidden_layers[i]))
        return self._stack_states(next_states)

    def _run_cells(
        self, x: Float[Tensor, "N T Dk"], states: Float[Tensor, "N R E"]
    ) -> tuple[Float[Tensor, "N T E"], Float[Tensor, "N R E"]]:
        """Run T steps of each layer in turn.

        Returns the hidden states of the highest layer, and the states of all layers after the last
        step.
        """
        last_states = []
        for i, cell in enumerate(self.cells):
            layer_input = self.dropout(x) if i else x
            layer_states = self._layer_states(states, i)
            x, last = continue_rnn(cell, layer_input, layer_states)
            last_states.append(last)
        return x, self._stack_states(last_states)


@register_decoder("recurrent", RecurrentDecoderSettings)
@as_defined
class RecurrentDecoder(_RecurrentDecoder):
    """Recurrent decoder with attention.

    It attends before each step (Bahdanau et al. 2015) or after it (Luong et al. 2015). With a gate,
    the context is scaled by a number that is computed from the state (Xu et al. 2015).
    """

    def __init__(
        self, settings: RecurrentDecoderSettings, vocabulary: int, source: EncoderSizes
    ) -> None:
        super().__init__(settings, vocabulary)
        s = settings
        _check_sizes(s, source)
        cell = CELLS[s.cell]
        self.order = s.order
        self.cross_attention = Attention(
            "cross",
            s.size,
            source.size,
            s.attention_size,
            score_name=s.score,
            project_keys=s.attention_projection,
            project_values=False,
            normaliser=s.normaliser,
        )
        self.cells = ModuleList(_cells(s, s.embedding))
        if s.order != "luong":
            context_size = source.size if s.order == "bahdanau" else s.embedding
            self.context_proj = nn.Linear(context_size, cell.gates * s.size, bias=False)
        self.gate = nn.Linear(s.size, 1) if s.gate else None
        self.bridges = ModuleList(
            nn.Linear(source.size, s.size) for _ in range(s.layers * cell.states)
        )
        readout_size = s.size + source.size
        if s.order == "bahdanau":
            readout_size += s.embedding
        self.readout = nn.Linear(readout_size, s.embedding)
        self.output = OutputProjection(vocabulary, s.embedding)

    def prepare(self, encoded: Encoded) -> Source:
        outputs = to_autocast(encoded.outputs)
        memory = self.cross_attention.prepare(outputs, outputs, encoded.keep)
        return Source((memory,), encoded.summary, encoded.grid)

    def begin(self, source: Source) -> State:
        """Compute state i of R by a bridge from row i·L // R of the summary.

        If encoder and decoder are LSTMs, hidden states thus come from hidden states, and cells from
        cells.
        """
        B, L, _ = source.summary.shape
        R = len(self.bridges)
        states = self._bridge([source.summary[:, i * L // R] for i in range(R)])
        tensors = {"states": states}
        if self.order == "luong_input_feeding":
            tensors["input_feed"] = states.new_zeros(B, self.context_proj.in_features)
        position = source.summary.new_zeros(B, dtype=int)  # type: ignore[call-overload]
        state = State(position, tensors, {})
        return with_coverage(state, [self.cross_attention], source)

    def step(
        self, tokens: Int[Tensor, "N T"], state: State, source: Source
    ) -> tuple[Float[Tensor, "N T D"], State]:
        orders = {
            "bahdanau": self._attend_then_step,
            "luong": self._step_then_attend,
            "luong_input_feeding": self._input_feeding,
        }
        features, tensors = orders[self.order](
            self._embed(tokens), dict(state.tensors), source
        )
        position = state.position + tokens.shape[1]
        return features, replace(state, position=position, tensors=tensors)

    def _attend_then_step(
        self, embedded: Tensor, tensors: Tensors, source: Source
    ) -> tuple[Tensor, Tensors]:
        """Run Bahdanau attention: c = attend(h), h = cell([y; c], h), output tanh(W [h; c; y])."""
        input_projs = self.cells[0].input(embedded).unbind(1)
        query = _deferred(self.cross_attention.query)
        context_proj = DeferredLinear.from_layer(self.context_proj)
        hidden_layers = [DeferredLinear.from_layer(cell.hidden) for cell in self.cells]
        states = tensors["states"]
        tops = []
        contexts = []
        for input_proj in input_projs:
            top = states[:, self._top]
            # (N, 1, Dv)
            context = attend_to_source(
                self.cross_attention,
                query(top).unsqueeze(1),
                source.memories[0],
                tensors,
            )
            context = self._gated(context, top)
            cell_input = input_proj + context_proj(context[:, 0])
            states = self._step_cells(cell_input, states, hidden_layers)
            tops.append(states[:, self._top])
            contexts.append(context)
        features = self._readout(torch.stack(tops, 1), torch.cat(contexts, 1), embedded)
        return features, {**tensors, "states": states}

    def _step_then_attend(
        self, embedded: Tensor, tensors: Tensors, source: Source
    ) -> tuple[Tensor, Tensors]:
        """Run Luong attention: h = cell(y, h), c = attend(h), output tanh(W [h; c]).

        All positions are computed in one call.
        """
        tops, states = self._run_cells(embedded, tensors["states"])
        query = self.cross_attention.query(tops)
        context = attend_to_source(
            self.cross_attention, query, source.memories[0], tensors
        )
        features = self._readout(tops, self._gated(context, tops))
        return features, {**tensors, "states": states}

    def _input_feeding(
        self, embedded: Tensor, tensors: Tensors, source: Source
    ) -> tuple[Tensor, Tensors]:
        """Run Luong attention with input feeding: h = cell([y; previous output], h)."""
        input_projs = self.cells[0].input(embedded).unbind(1)
        query = _deferred(self.cross_attention.query)
        context_proj = DeferredLinear.from_layer(self.context_proj)
        readout = DeferredLinear.from_layer(self.readout)
        hidden_layers = [DeferredLinear.from_layer(cell.hidden) for cell in self.cells]
        states = tensors["states"]
        input_feed = tensors["input_feed"]
        features = []
        for input_proj in input_projs:
            cell_input = input_proj + context_proj(input_feed)
            states = self._step_cells(cell_input, states, hidden_layers)
            top = states[:, self._top]
            # (N, 1, Dv)
            context = attend_to_source(
                self.cross_attention,
                query(top).unsqueeze(1),
                source.memories[0],
                tensors,
            )
            context = self._gated(context, top)
            input_feed = self._readout(top, context[:, 0], layer=readout)
            features.append(input_feed)
        carried = {"states": states, "input_feed": input_feed.float()}
        return torch.stack(features, 1), {**tensors, **carried}

    def _gated(
        self, context: Float[Tensor, "N T Dv"], states: Tensor
    ) -> Float[Tensor, "N T Dv"]:
        """Return β·c with the gate β = σ(f(h)) (Xu et al. 2015, section 4.2.1).

        `states` holds h, (N, T, E) or (N, E).
        """
        if self.gate is None:
            return context
        beta = torch.sigmoid(self.gate(states)).to(context.dtype)
        return context * beta.view(len(context), -1, 1)

    def _readout(
        self, *parts: Tensor, layer: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        inputs = torch.cat([part.to(parts[0].dtype) for part in parts], -1)
        return self.dropout(torch.tanh((layer or self.readout)(inputs)))  # type: ignore[no-any-return]


@as_defined
class _Bottleneck(nn.Module):
    """Linear layer whose weight is the product of two narrow matrices.

    It has a `weight` and a `bias` like any linear layer, so the runtime can pack it like one.
    """

    def __init__(self, inputs: int, numbers: int, outputs: int) -> None:
        super().__init__()
        self.down = nn.Linear(inputs, numbers, bias=False)
        self.up = nn.Linear(numbers, outputs)

    @property
    def weight(self) -> Float[Tensor, "Dv Dk"]:
        return self.up.weight @ self.down.weight

    @property
    def bias(self) -> Float[Tensor, " Dv"]:
        return self.up.bias

    def forward(self, x: Float[Tensor, "B Dk"]) -> Float[Tensor, "B Dv"]:
        return self.up(self.down(x))  # type: ignore[no-any-return]


@register_decoder("no_attention", NoAttentionDecoderSettings)
@as_defined
class NoAttentionDecoder(_RecurrentDecoder):
    """Recurrent decoder without attention, initialised from all of the encoder's last states."""

    def __init__(
        self,
        settings: NoAttentionDecoderSettings,
        vocabulary: int,
        source: EncoderSizes,
    ) -> None:
        super().__init__(settings, vocabulary)
        s = settings
        self.every = s.context == "every"
        input_size = s.embedding
        readout_size = s.size
        if self.every:
            input_size += s.size
            readout_size += input_size
        summary_size = source.size * source.summary_rows
        self.cells = ModuleList(_cells(s, input_size))
        self.bridges = ModuleList(
            _Bottleneck(summary_size, s.bottleneck, s.size)
            if s.bottleneck
            else nn.Linear(summary_size, s.size)
            for _ in range(s.layers * self.states)
        )
        self.readout = nn.Linear(readout_size, s.embedding)
        self.output = OutputProjection(vocabulary, s.embedding)

    def prepare(self, encoded: Encoded) -> Source:
        return Source((), encoded.summary, encoded.grid)

    def begin(self, source: Source) -> State:
        """Compute each state by a bridge from the whole summary.

        The context that enters every step is the first hidden state of the highest layer.
        """
        states = self._bridge([source.summary.flatten(1)] * len(self.bridges))
        tensors = {"states": states}
        if self.every:
            tensors["context"] = states[:, self._top]
        position = source.summary.new_zeros(len(states), dtype=int)  # type: ignore[call-overload]
        return State(position, tensors, {})

    def step(
        self,
        tokens: Int[Tensor, "N T"],
        state: State,
        source: Source,  # noqa: ARG002
    ) -> tuple[Float[Tensor, "N T D"], State]:
        T = tokens.shape[1]
        x = self._embed(tokens)
        if self.every:
            context = state.tensors["context"].unsqueeze(1).expand(-1, T, -1)
            x = torch.cat([x, context], -1)
        tops, states = self._run_cells(x, state.tensors["states"])
        readout_input = torch.cat([tops, x], -1) if self.every else tops
        features = self.dropout(torch.tanh(self.readout(readout_input)))
        tensors = {**state.tensors, "states": states}
        return features, State(state.position + T, tensors, {})


def _check_sizes(settings: RecurrentDecoderSettings, source: EncoderSizes) -> None:
    """Raise ConfigurationError if the score would compare vectors of different sizes."""
    if (
        not settings.attention_projection
        and settings.score != "general"
        and settings.size != source.size
    ):
        raise ConfigurationError(
            f"model.decoder.attention_projection = false: {settings.score} compares the decoder's "
            f"states of {settings.size} numbers with encoder outputs of {source.size}; set "
            f"model.decoder.size = {source.size}, or keep the projection"
        )


def _cells(settings: _DecoderSettings, inputs: int) -> Iterator[Cell]:
    """Create the cells of all layers; the lowest takes inputs of size `inputs`."""
    s = settings
    for i in range(s.layers):
        yield CELLS[s.cell](inputs if i == 0 else s.size, s.size)


def _deferred(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """Wrap a linear layer for the steps of a loop; an identity is returned unchanged."""
    return DeferredLinear.from_layer(layer) if isinstance(layer, nn.Linear) else layer
