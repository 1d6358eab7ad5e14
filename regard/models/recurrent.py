"""Recurrent encoder and decoders: with attention before or after each step, and without any."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import nn

from regard.attention import Attention, ScoreName
from regard.layers.cells import CELLS, CellName
from regard.layers.deferred_linear import DeferredLinear
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, OutputProjection
from regard.layers.residual import to_autocast
from regard.layers.rnn import NETWORKS, continue_rnn, run_rnn
from regard.models.interface import Batch, Decoder, Encoded, Encoder, EncoderSizes, Source, State
from regard.settings import Settings
from regard.shapes import Float, Int, Tensor

__all__ = [
    "NoAttentionDecoder",
    "NoAttentionDecoderSettings",
    "RecurrentDecoder",
    "RecurrentDecoderSettings",
    "RecurrentEncoder",
    "RecurrentEncoderSettings",
]


class RecurrentEncoderSettings(Settings):
    """A recurrent encoder, in one direction or both."""

    reads: ClassVar[str] = "text"
    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = Field("gru", description="the recurrent unit")
    layers: int = Field(1, ge=1, description="how many layers stand one on another")
    size: int = Field(256, ge=1, description="size of the hidden state in each direction")
    bidirectional: bool = Field(True, description="read from both ends and put the two states side by side")
    embedding: int = Field(256, ge=1, description="size of the embeddings")
    dropout: float = Field(0.3, ge=0, lt=1, description="share of numbers zeroed after embeddings and layers")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of pieces whose whole embedding is zeroed")


class _DecoderSettings(Settings):
    """What recurrent decoders have in common."""

    cell: CellName = Field("gru", description="the recurrent unit")
    layers: int = Field(1, ge=1, description="how many layers stand one on another")
    size: int = Field(512, ge=1, description="size of the hidden state")
    embedding: int = Field(256, ge=1, description="size of the embeddings, and of the features that are projected")
    dropout: float = Field(0.3, ge=0, lt=1, description="share of numbers zeroed after embeddings and layers")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of pieces whose whole embedding is zeroed")


class RecurrentDecoderSettings(_DecoderSettings):
    """A recurrent decoder that reads the source with attention at every step."""

    kind: Literal["recurrent"] = "recurrent"
    order: Literal["bahdanau", "luong", "luong_input_feeding"] = Field(
        "bahdanau",
        description="bahdanau: read the source with the state before, then step; luong: step, then read; "
        "luong_input_feeding: what came of the last read goes into the next step too (input feeding)",
    )
    score: ScoreName = Field("additive", description="how a state is scored against the source")
    attention: int = Field(
        256, ge=1, description="size in which state and source are compared; general compares them as they are"
    )
    gate: bool = Field(
        False, description="a number between 0 and 1, from the state, says how much what was read counts at each step"
    )


class NoAttentionDecoderSettings(_DecoderSettings):
    """A recurrent decoder without attention: all it knows of the source is what the encoder's last states say."""

    kind: Literal["no_attention"] = "no_attention"
    context: Literal["first", "every"] = Field(
        "first",
        description="the encoder's last states start the first step (Sutskever et al. 2014), "
        "or are also put into every step (Cho et al. 2014)",
    )


class RecurrentEncoder(Encoder):
    """A GRU or LSTM over the source; each entry is told as the states of both directions there."""

    def __init__(self, settings: RecurrentEncoderSettings, vocabulary: int) -> None:
        super().__init__()
        s, directions = settings, 2 if settings.bidirectional else 1
        self.embedding, self.dropout = Embedding(vocabulary, s.embedding, scaled=False), Dropout(s.dropout)
        self.word_dropout = Dropout(s.word_dropout, per_position=True)
        cell, width = CELLS[s.cell], s.size * directions
        self.networks = nn.ModuleList(
            NETWORKS[s.cell](s.embedding if i == 0 else width, s.size, batch_first=True, bidirectional=s.bidirectional)
            for i in range(s.layers)
        )
        self.cell = cell
        self.shape = EncoderSizes(width, s.layers * cell.states, s.embedding)

    def forward(self, batch: Batch) -> Encoded:
        embedded = x = self.dropout(self.word_dropout(self.embedding(batch.data)))
        last: list[tuple[Tensor, ...]] = []
        for i, network in enumerate(self.networks):
            x, states = run_rnn(network, self.cell, self.dropout(x) if i else x, batch.keep)  # type: ignore[arg-type]
            last.append(states)
        summary = torch.stack([layer[s] for s in range(self.cell.states) for layer in last], 1)
        return Encoded(self.dropout(x), embedded, summary, batch.keep)


Walked = tuple[Float[Tensor, "N T D"], dict[str, Tensor]]  # features, and the tensors of the state after


class _RecurrentDecoder(Decoder):
    """What recurrent decoders have in common: layers of cells, and bridges from the encoder's summary to them."""

    cells: nn.ModuleList
    bridges: nn.ModuleList

    def __init__(self, settings: _DecoderSettings, vocabulary: int) -> None:
        super().__init__()
        s = settings
        self.embedding, self.dropout = Embedding(vocabulary, s.embedding, scaled=False), Dropout(s.dropout)
        self.word_dropout = Dropout(s.word_dropout, per_position=True)
        self.states = CELLS[s.cell].states

    def _embed(self, tokens: Int[Tensor, "N T"]) -> Float[Tensor, "N T De"]:
        return self.dropout(self.word_dropout(self.embedding(tokens)))  # type: ignore[no-any-return]

    def _begin(self, rows: list[Float[Tensor, "B D"]]) -> Float[Tensor, "B R E"]:
        """The first states, each from its own row through its own bridge."""
        states = [torch.tanh(bridge(row)) for bridge, row in zip(self.bridges, rows, strict=True)]
        return torch.stack(states, 1).float()

    @property
    def _top(self) -> int:
        """Where the hidden state of the highest layer stands among all states."""
        return len(self.cells) - 1

    def _of_layer(self, states: Float[Tensor, "N R E"], layer: int) -> tuple[Float[Tensor, "N E"], ...]:
        """The states of one layer; hiddens of all layers stand before cells."""
        return tuple(states[:, layer + len(self.cells) * s] for s in range(self.states))

    def _together(self, layers: list[tuple[Tensor, ...]]) -> Float[Tensor, "N R E"]:
        """The states of all layers in one tensor."""
        return torch.stack([layer[s] for s in range(self.states) for layer in layers], 1)

    def _advance(
        self, projected: Float[Tensor, "N G"], states: Float[Tensor, "N R E"], hiddens: list[DeferredLinear]
    ) -> Float[Tensor, "N R E"]:
        """One step of every layer."""
        new: list[tuple[Tensor, ...]] = []
        for i, cell in enumerate(self.cells):
            if i:
                projected = cell.input(self.dropout(new[-1][0]))  # type: ignore[operator]
            new.append(cell(projected, self._of_layer(states, i), hiddens[i]))
        return self._together(new)

    def _go_on(
        self, x: Float[Tensor, "N T Dk"], states: Float[Tensor, "N R E"]
    ) -> tuple[Float[Tensor, "N T E"], Float[Tensor, "N R E"]]:
        """T steps of every layer, one layer after another: the highest hidden states, and all states after."""
        new = []
        for i, cell in enumerate(self.cells):
            x, last = continue_rnn(cell, self.dropout(x) if i else x, self._of_layer(states, i))  # type: ignore[arg-type]
            new.append(last)
        return x, self._together(new)


class RecurrentDecoder(_RecurrentDecoder):
    """Reads the source at every step: before it (Bahdanau et al. 2015), or after it (Luong et al. 2015).

    With a gate, the state also says how much the answer counts (Xu et al. 2015).
    """

    def __init__(self, settings: RecurrentDecoderSettings, vocabulary: int, source: EncoderSizes) -> None:
        super().__init__(settings, vocabulary)
        s, cell = settings, CELLS[settings.cell]
        self.order = s.order
        self.cross_attention = Attention("cross", s.size, source.size, s.attention, score_name=s.score, raw_values=True)
        self.cells = _cells(s, s.embedding)
        if s.order != "luong":
            fed_back = source.size if s.order == "bahdanau" else s.embedding
            self.context = nn.Linear(fed_back, cell.gates * s.size, bias=False)
        self.gate = nn.Linear(s.size, 1) if s.gate else None
        self.bridges = nn.ModuleList(nn.Linear(source.size, s.size) for _ in range(s.layers * cell.states))
        told = s.size + source.size + (s.embedding if s.order == "bahdanau" else 0)
        self.readout = nn.Linear(told, s.embedding)
        self.output = OutputProjection(vocabulary, s.embedding)

    def prepare(self, encoded: Encoded) -> Source:
        outputs = to_autocast(encoded.outputs)
        return Source((self.cross_attention.prepare(outputs, outputs, encoded.keep),), encoded.summary, encoded.grid)

    def begin(self, source: Source) -> State:
        """The bridge: state i of R comes from row i·L // R of the summary, so cells meet cells where both have them."""
        B, L, _ = source.summary.shape
        count = len(self.bridges)
        tensors = {"states": self._begin([source.summary[:, i * L // count] for i in range(count)])}
        if self.order == "luong_input_feeding":
            tensors["fed"] = tensors["states"].new_zeros(B, self.context.in_features)
        return State(source.summary.new_zeros(B, dtype=int), tensors, {})  # type: ignore[call-overload]

    def step(self, tokens: Int[Tensor, "N T"], state: State, source: Source) -> tuple[Float[Tensor, "N T D"], State]:
        walks = {
            "bahdanau": self._read_then_step,
            "luong": self._step_then_read,
            "luong_input_feeding": self._input_feeding,
        }
        features, tensors = walks[self.order](self._embed(tokens), state.tensors, source)
        return features, State(state.position + tokens.shape[1], tensors, {})

    def _read_then_step(self, embedded: Tensor, before: dict[str, Tensor], source: Source) -> Walked:
        """c = read(h of the step before), h = cell([y; c], h), features tanh(W [h; c; y])."""
        projected = self.cells[0].input(embedded).unbind(1)  # type: ignore[operator]
        query, context_layer = _repeated(self.cross_attention.query), DeferredLinear.of(self.context)
        hiddens = [DeferredLinear.of(cell.hidden) for cell in self.cells]  # type: ignore[arg-type]
        states, tops, contexts = before["states"], [], []
        for now in projected:
            top = states[:, self._top]
            context = self._gated(
                self.cross_attention.attend(query(top).unsqueeze(1), source.memories[0]), top
            )  # (N, 1, Dv)
            states = self._advance(now + context_layer(context[:, 0]), states, hiddens)
            tops.append(states[:, self._top])
            contexts.append(context)
        return self._readout(torch.stack(tops, 1), torch.cat(contexts, 1), embedded), {"states": states}

    def _step_then_read(self, embedded: Tensor, before: dict[str, Tensor], source: Source) -> Walked:
        """h = cell(y, h), c = read(h), features tanh(W [h; c]): nothing is fed back, so all positions are one call."""
        tops, states = self._go_on(embedded, before["states"])
        return self._readout(tops, self._gated(self.cross_attention(tops, source.memories[0]), tops)), {
            "states": states
        }

    def _input_feeding(self, embedded: Tensor, before: dict[str, Tensor], source: Source) -> Walked:
        """The same, but the features of a step go into the next: h = cell([y; features before], h)."""
        projected = self.cells[0].input(embedded).unbind(1)  # type: ignore[operator]
        query, feed, readout = (
            _repeated(self.cross_attention.query),
            DeferredLinear.of(self.context),
            DeferredLinear.of(self.readout),
        )
        hiddens = [DeferredLinear.of(cell.hidden) for cell in self.cells]  # type: ignore[arg-type]
        states, fed, features = before["states"], before["fed"], []
        for now in projected:
            states = self._advance(now + feed(fed), states, hiddens)
            top = states[:, self._top]
            context = self._gated(self.cross_attention.attend(query(top).unsqueeze(1), source.memories[0]), top)
            fed = self._readout(top, context[:, 0], layer=readout)
            features.append(fed)
        return torch.stack(features, 1), {"states": states, "fed": fed.float()}

    def _gated(self, context: Float[Tensor, "N T Dv"], asking: Tensor) -> Float[Tensor, "N T Dv"]:
        """β c, where β = σ(f(h)) of the states that asked, (N, T, E) or (N, E) (Xu et al. 2015, section 4.2.1)."""
        if self.gate is None:
            return context
        open_ = torch.sigmoid(self.gate(asking)).to(context.dtype)
        return context * open_.view(len(context), -1, 1)

    def _readout(self, *parts: Tensor, layer: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        told = torch.cat([part.to(parts[0].dtype) for part in parts], -1)
        return self.dropout(torch.tanh((layer or self.readout)(told)))  # type: ignore[no-any-return]


class NoAttentionDecoder(_RecurrentDecoder):
    """Knows of the source what the encoder's last states say, all of them, and reads nothing."""

    def __init__(self, settings: NoAttentionDecoderSettings, vocabulary: int, source: EncoderSizes) -> None:
        super().__init__(settings, vocabulary)
        s = settings
        self.every = s.context == "every"
        inputs = s.embedding + s.size * self.every
        self.cells = _cells(s, inputs)
        self.bridges = nn.ModuleList(
            nn.Linear(source.size * source.rows, s.size) for _ in range(s.layers * self.states)
        )
        self.readout = nn.Linear(s.size + inputs * self.every, s.embedding)
        self.output = OutputProjection(vocabulary, s.embedding)

    def prepare(self, encoded: Encoded) -> Source:
        return Source((), encoded.summary, encoded.grid)

    def begin(self, source: Source) -> State:
        """Every state sees the whole summary: what is lost here is lost. The context is the highest hidden state."""
        states = self._begin([source.summary.flatten(1)] * len(self.bridges))
        tensors = {"states": states, "context": states[:, self._top]} if self.every else {"states": states}
        position = source.summary.new_zeros(len(states), dtype=int)  # type: ignore[call-overload]
        return State(position, tensors, {})

    def step(self, tokens: Int[Tensor, "N T"], state: State, source: Source) -> tuple[Float[Tensor, "N T D"], State]:  # noqa: ARG002
        T, x = tokens.shape[1], self._embed(tokens)
        if self.every:
            x = torch.cat([x, state.tensors["context"].unsqueeze(1).expand(-1, T, -1)], -1)
        tops, states = self._go_on(x, state.tensors["states"])
        told = torch.cat([tops, x], -1) if self.every else tops
        features = self.dropout(torch.tanh(self.readout(told)))
        return features, State(state.position + T, {**state.tensors, "states": states}, {})


def _cells(settings: _DecoderSettings, inputs: int) -> nn.ModuleList:
    """Layers of cells, the lowest of which takes `inputs` numbers."""
    s = settings
    return nn.ModuleList(CELLS[s.cell](inputs if i == 0 else s.size, s.size) for i in range(s.layers))


def _repeated(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """The layer for the steps of a loop; one without weights is itself."""
    return DeferredLinear.of(layer) if isinstance(layer, nn.Linear) else layer
