"""Recurrent encoder and decoder with attention as in Bahdanau et al. 2015: attend with the state before, then step."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import nn

from regard.attention import Read
from regard.layers.blocks import lowered
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, Output
from regard.layers.recurrent import CELLS, CellName
from regard.layers.repeated import Repeated
from regard.layers.sequence import NETWORKS, run
from regard.models.interface import Batch, Decoder, Encoded, Encoder, Shape, Source, State
from regard.settings import Settings
from regard.shapes import Float, Int, Tensor

__all__ = ["RecurrentDecoder", "RecurrentDecoderSettings", "RecurrentEncoder", "RecurrentEncoderSettings"]


class RecurrentEncoderSettings(Settings):
    """A recurrent encoder, in one direction or both."""

    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = Field("gru", description="the recurrent unit")
    layers: int = Field(1, ge=1, description="how many layers stand one on another")
    size: int = Field(256, ge=1, description="size of the hidden state in each direction")
    bidirectional: bool = Field(True, description="read from both ends and put the two states side by side")
    embedding: int = Field(256, ge=1, description="size of the embeddings")
    dropout: float = Field(0.3, ge=0, lt=1, description="share of numbers zeroed after embeddings and layers")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of pieces whose whole embedding is zeroed")


class RecurrentDecoderSettings(Settings):
    """A recurrent decoder that reads the source with attention at every step."""

    kind: Literal["recurrent"] = "recurrent"
    cell: CellName = Field("gru", description="the recurrent unit")
    layers: int = Field(1, ge=1, description="how many layers stand one on another")
    size: int = Field(512, ge=1, description="size of the hidden state")
    embedding: int = Field(256, ge=1, description="size of the embeddings, and of the features that are projected")
    score: Literal["additive", "scaled_dot"] = Field("additive", description="how a state is scored against the source")
    attention: int = Field(256, ge=1, description="size in which state and source are compared")
    dropout: float = Field(0.3, ge=0, lt=1, description="share of numbers zeroed after embeddings and layers")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of pieces whose whole embedding is zeroed")


class RecurrentEncoder(Encoder):
    """A GRU or LSTM over the source; each entry is told as the states of both directions there."""

    def __init__(self, settings: RecurrentEncoderSettings, vocabulary: int) -> None:
        super().__init__()
        s, directions = settings, 2 if settings.bidirectional else 1
        self.embedding, self.dropout = Embedding(vocabulary, s.embedding, scaled=False), Dropout(s.dropout)
        self.word_dropout = Dropout(s.word_dropout, whole=True)
        cell, width = CELLS[s.cell], s.size * directions
        self.networks = nn.ModuleList(
            NETWORKS[s.cell](s.embedding if i == 0 else width, s.size, batch_first=True, bidirectional=s.bidirectional)
            for i in range(s.layers)
        )
        self.cell = cell
        self.shape = Shape(width, s.layers * cell.states)

    def forward(self, batch: Batch) -> Encoded:
        embedded = x = self.dropout(self.word_dropout(self.embedding(batch.data)))
        last: list[tuple[Tensor, ...]] = []
        for i, network in enumerate(self.networks):
            x, states = run(network, self.cell, self.dropout(x) if i else x, batch.keep)  # type: ignore[arg-type]
            last.append(states)
        summary = torch.stack([layer[s] for s in range(self.cell.states) for layer in last], 1)
        return Encoded(self.dropout(x), embedded, summary, batch.keep)


class RecurrentDecoder(Decoder):
    """At each step: read the source with the last state, step on the piece before and what was read, then tell."""

    def __init__(self, settings: RecurrentDecoderSettings, vocabulary: int, source: Shape) -> None:
        super().__init__()
        s, cell = settings, CELLS[settings.cell]
        self.embedding, self.dropout = Embedding(vocabulary, s.embedding, scaled=False), Dropout(s.dropout)
        self.word_dropout = Dropout(s.word_dropout, whole=True)
        self.read = Read("cross", s.size, source.size, s.attention, score_name=s.score, raw_values=True)
        self.cells = nn.ModuleList(cell(s.embedding if i == 0 else s.size, s.size) for i in range(s.layers))
        self.context = nn.Linear(source.size, cell.gates * s.size, bias=False)
        self.bridges = nn.ModuleList(nn.Linear(source.size, s.size) for _ in range(s.layers * cell.states))
        self.readout = nn.Linear(s.size + source.size + s.embedding, s.embedding)
        self.output = Output(vocabulary, s.embedding)
        self.states = cell.states

    def prepare(self, encoded: Encoded) -> Source:
        outputs = lowered(encoded.outputs)
        return Source((self.read.prepare(outputs, outputs, encoded.keep),), encoded.summary, encoded.grid)

    def begin(self, source: Source) -> State:
        """The bridge: state i of R comes from row i·L // R of the summary, so cells meet cells where both have them."""
        B, L, _ = source.summary.shape
        rows = [source.summary[:, i * L // len(self.bridges)] for i in range(len(self.bridges))]
        states = [torch.tanh(bridge(row)) for bridge, row in zip(self.bridges, rows, strict=True)]
        position = source.summary.new_zeros(B, dtype=int)  # type: ignore[call-overload]
        return State(position, {"states": torch.stack(states, 1).float()}, {})

    def step(self, tokens: Int[Tensor, "N T"], state: State, source: Source) -> tuple[Float[Tensor, "N T D"], State]:
        embedded = self.dropout(self.word_dropout(self.embedding(tokens)))
        projected = self.cells[0].input(embedded).unbind(1)  # type: ignore[operator]
        query, context_layer = Repeated.of(self.read.query), Repeated.of(self.context)
        hiddens = [Repeated.of(cell.hidden) for cell in self.cells]  # type: ignore[arg-type]
        states, tops, contexts = state.tensors["states"], [], []
        for now in projected:
            context = self.read.answer(query(states[:, self._top]).unsqueeze(1), source.memories[0])  # (N, 1, Dv)
            states = self._advance(now + context_layer(context[:, 0]), states, hiddens)
            tops.append(states[:, self._top])
            contexts.append(context)
        told = [torch.stack(tops, 1), torch.cat(contexts, 1), embedded]
        features = torch.tanh(self.readout(torch.cat([part.to(told[0].dtype) for part in told], -1)))
        return self.dropout(features), State(state.position + tokens.shape[1], {"states": states}, {})

    @property
    def _top(self) -> int:
        """Where the hidden state of the highest layer stands among all states."""
        return len(self.cells) - 1

    def _advance(
        self, projected: Float[Tensor, "N G"], states: Float[Tensor, "N R E"], hiddens: list[Repeated]
    ) -> Float[Tensor, "N R E"]:
        """One step of every layer; hiddens stand before cells."""
        layers = len(self.cells)
        new: list[tuple[Tensor, ...]] = []
        for i, cell in enumerate(self.cells):
            if i:
                projected = cell.input(self.dropout(new[-1][0]))  # type: ignore[operator]
            new.append(cell(projected, tuple(states[:, i + layers * s] for s in range(self.states)), hiddens[i]))
        return torch.stack([layer[s] for s in range(self.states) for layer in new], 1)
