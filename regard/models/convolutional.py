"""Convolutional sequence-to-sequence (Gehring et al. 2017): each position from its neighbours, layer upon layer."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from regard.attention import Attention, Memory, ScoreName
from regard.layers.convolution import SQRT_HALF, GatedConvolution, WeightNormLinear
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, OutputProjection
from regard.layers.positions import LearnedPositions
from regard.layers.residual import masked_mean, to_autocast
from regard.models.interface import Batch, Decoder, Encoded, Encoder, EncoderSizes, Source, State
from regard.settings import Settings
from regard.shapes import Float, Int, Tensor

__all__ = [
    "ConvolutionalDecoder",
    "ConvolutionalDecoderSettings",
    "ConvolutionalEncoder",
    "ConvolutionalEncoderSettings",
]


class ConvolutionalSettings(Settings):
    """What the two sides of a convolutional model have in common."""

    kind: Literal["convolutional"] = "convolutional"
    layers: int = Field(4, ge=1, description="how many layers stand one on another")
    size: int = Field(256, ge=1, description="size of the vectors between layers")
    width: int = Field(3, ge=1, description="how many neighbouring positions each position is made from")
    embedding: int = Field(256, ge=1, description="size of the embeddings, and of what goes out")
    limit: int = Field(
        512,
        ge=1,
        description="positions with a learnt vector; later ones share the last, and no longer target is written",
    )
    dropout: float = Field(0.2, ge=0, lt=1, description="share of numbers zeroed after embeddings and before layers")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="share of pieces whose whole embedding is zeroed")


class ConvolutionalEncoderSettings(ConvolutionalSettings):
    """A convolutional encoder: a position sees as many neighbours on its left as on its right."""

    reads: ClassVar[str] = "text"


class ConvolutionalDecoderSettings(ConvolutionalSettings):
    """A convolutional decoder: a position sees those before it, and every layer reads the source."""

    score: ScoreName = Field("dot", description="how a position is scored against the source")


class _InputEmbedding(nn.Module):
    """Embeddings plus learnt positions, with dropout."""

    def __init__(self, vocabulary: int, settings: ConvolutionalSettings) -> None:
        super().__init__()
        self.embedding = Embedding(vocabulary, settings.embedding, scaled=False)
        self.places = LearnedPositions(settings.limit, settings.embedding)
        self.dropout, self.word_dropout = Dropout(settings.dropout), Dropout(settings.word_dropout, per_position=True)

    def forward(self, pieces: Int[Tensor, "N T"], positions: Int[Tensor, "N T"]) -> Float[Tensor, "N T De"]:
        return self.dropout(self.word_dropout(self.embedding(pieces)) + self.places(positions))  # type: ignore[no-any-return]


class ConvolutionalEncoder(Encoder):
    """Layers of gated convolutions over the source, what may not be read zeroed after each."""

    def __init__(self, settings: ConvolutionalEncoderSettings, vocabulary: int) -> None:
        super().__init__()
        s = settings
        self.entrance, self.dropout = _InputEmbedding(vocabulary, s), Dropout(s.dropout)
        self.widen, self.narrow = (
            WeightNormLinear(s.embedding, s.size, s.dropout),
            WeightNormLinear(s.size, s.embedding),
        )
        self.layers = nn.ModuleList(GatedConvolution(s.size, s.width, s.dropout) for _ in range(s.layers))
        self.around = (0, 0, (s.width - 1) // 2, s.width // 2)  # nothing, as many positions before as after
        self.shape = EncoderSizes(s.embedding, 1, s.embedding)

    @property
    def embedding(self) -> Embedding:  # type: ignore[override]
        return self.entrance.embedding

    def forward(self, batch: Batch) -> Encoded:
        hidden = None if batch.keep is None else ~batch.keep.unsqueeze(-1)
        positions = torch.ones_like(batch.data).cumsum(1) - 1
        embedded = _zeroed(self.entrance(batch.data, positions), hidden)
        x = _zeroed(self.widen(embedded).float(), hidden)
        for layer in self.layers:
            near = F.pad(self.dropout(x), self.around)
            x = _zeroed((layer(to_autocast(near)) + x) * SQRT_HALF, hidden)
        outputs = _zeroed(self.narrow(x), hidden)
        return Encoded(outputs, embedded, masked_mean(outputs, batch.keep), batch.keep)


class ConvolutionalDecoderLayer(nn.Module):
    """Looks back over the last pieces, then reads the source with what came of it and the piece itself."""

    def __init__(self, settings: ConvolutionalDecoderSettings, source: EncoderSizes) -> None:
        super().__init__()
        s = settings
        self.convolution, self.dropout = GatedConvolution(s.size, s.width, s.dropout), Dropout(s.dropout)
        self.query_in, self.context_out = WeightNormLinear(s.size, source.size), WeightNormLinear(source.size, s.size)
        self.cross_attention = Attention(
            "cross", source.size, source.size, source.size, score_name=s.score, raw_values=True, raw_keys=True
        )

    def forward(
        self, x: Float[Tensor, "N T D"], window: Tensor, target: Float[Tensor, "N T Dk"], memory: Memory
    ) -> tuple[Float[Tensor, "N T D"], Tensor]:
        """`window` (N, width − 1, D) is what this layer was given before, `target` the embeddings of the pieces."""
        given = torch.cat([window, self.dropout(x)], 1)
        y = self.convolution(to_autocast(given))
        asked = (self.query_in(y) + target) * SQRT_HALF
        # A mean of n entries varies less than one of them, at most by √n (section 3.4).
        found = self.cross_attention.attend(asked, memory) * _entries(memory, len(x)).sqrt()
        y = (y + self.context_out(found)) * SQRT_HALF
        return (y + x) * SQRT_HALF, given[:, given.shape[1] - window.shape[1] :]


class ConvolutionalDecoder(Decoder):
    """Layers that look back over what was written, each with attention; a step keeps a window of each layer's input."""

    def __init__(self, settings: ConvolutionalDecoderSettings, vocabulary: int, source: EncoderSizes) -> None:
        super().__init__()
        s = settings
        self.entrance, self.dropout, self.max_target = _InputEmbedding(vocabulary, s), Dropout(s.dropout), s.limit
        self.widen, self.narrow = (
            WeightNormLinear(s.embedding, s.size, s.dropout),
            WeightNormLinear(s.size, s.embedding),
        )
        self.layers = nn.ModuleList(ConvolutionalDecoderLayer(s, source) for _ in range(s.layers))
        self.fit_target, self.fit_source = _fit(s.embedding, source.size), _fit(source.embedded, source.size)
        self.output = OutputProjection(vocabulary, s.embedding)
        self.window = (s.width - 1, s.size)

    @property
    def embedding(self) -> Embedding:  # type: ignore[override]
        return self.entrance.embedding

    def prepare(self, encoded: Encoded) -> Source:
        """Keys are what the encoder says; values add the embeddings, which say which piece stood there."""
        values = to_autocast((encoded.outputs + self.fit_source(encoded.embedded)) * SQRT_HALF)
        outputs = to_autocast(encoded.outputs)
        memories = tuple(
            layer.cross_attention.prepare(outputs, values, encoded.keep)  # type: ignore[union-attr, operator]
            for layer in self.layers
        )
        return Source(memories, encoded.summary, encoded.grid)

    def begin(self, source: Source) -> State:
        B = len(source.summary)
        windows = {f"window.{i}": source.summary.new_zeros(B, *self.window) for i in range(len(self.layers))}
        return State(source.summary.new_zeros(B, dtype=int), windows, {})  # type: ignore[call-overload]

    def step(self, tokens: Int[Tensor, "N T"], state: State, source: Source) -> tuple[Float[Tensor, "N T D"], State]:
        T = tokens.shape[1]
        embedded = self.entrance(tokens, state.position[:, None] + tokens.new_ones(T).cumsum(0) - 1)
        x, target, windows = self.widen(embedded).float(), self.fit_target(embedded), {}
        for i, layer in enumerate(self.layers):
            name = f"window.{i}"
            x, windows[name] = layer(x, state.tensors[name], target, source.memories[i])
        return self.dropout(self.narrow(x)), State(state.position + T, windows, {})


def _fit(size: int, wanted: int) -> nn.Module:
    """Vectors of one size into those of another, where they differ."""
    return nn.Identity() if size == wanted else WeightNormLinear(size, wanted)


def _zeroed(x: Float[Tensor, "B S D"], hidden: Tensor | None) -> Float[Tensor, "B S D"]:
    return x if hidden is None else x.masked_fill(hidden, 0)


def _entries(memory: Memory, rows: int) -> Tensor:
    """How many entries each of N rows may read: (N, 1, 1), or one number for all."""
    if memory.keep is None:
        return memory.keys.new_full((1, 1, 1), memory.entries, dtype=torch.float32)
    return memory.keep.sum(1).float().repeat_interleave(rows // memory.rows)[:, None, None]
