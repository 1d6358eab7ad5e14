"""Transformer encoder and decoder (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from regard.attention import Attention, Memory, ScoreName
from regard.common.monkey_patches import as_defined
from regard.common.settings import LENGTH, SIZE, Settings
from regard.common.shapes import Float, Int, Tensor
from regard.layers.dropout import layer_drop
from regard.layers.embedding import Embedding, OutputProjection
from regard.layers.feedforward import Activation, FeedForward
from regard.layers.input_embedding import InputEmbedding
from regard.layers.module_list import ModuleList
from regard.layers.positional_encoding import LearnedPositions, SinusoidalPositions
from regard.layers.residual import Norm, Residual, make_norm, masked_mean, to_autocast
from regard.models.interface import (
    Batch,
    Decoder,
    Encoded,
    Encoder,
    EncoderSizes,
    ShardUnit,
    Source,
    State,
)
from regard.models.shared_settings import LayerCount, WordDropout


class TransformerSettings(Settings):
    """Settings common to the Transformer encoder and decoder."""

    kind: Literal["transformer"] = "transformer"
    layers: LayerCount = 4
    size: int = Field(128, ge=2, le=SIZE, description="model size D")
    heads: int = Field(
        4, ge=1, le=SIZE, description="attention heads; they divide the size"
    )
    feedforward: int = Field(
        256, ge=1, le=SIZE, description="inner size of the feed-forward networks"
    )
    dropout: float = Field(
        0.3, ge=0, lt=1, description="dropout after embeddings and sublayers"
    )
    word_dropout: WordDropout = 0.0
    layer_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="LayerDrop: share of layers skipped in a training step",
    )
    norm: Norm = Field(
        "pre",
        description="layer normalisation before each sublayer (pre), or after it as published "
        "(post); for experiments: batch normalisation there (pre_batch, batch), or "
        "none (none)",
    )
    residual: bool = Field(
        True, description="add a sublayer's input to its output; false: for experiments"
    )
    final_norm: Literal["auto", "on", "off"] = Field(
        "auto",
        description="layer normalisation after the last layer; auto: if it is before sublayers, "
        "of their kind",
    )
    activation: Activation = Field(
        "relu",
        description="activation of the feed-forward networks; swiglu is gated: half as many "
        "weights again",
    )
    score: ScoreName = Field(
        "scaled_dot",
        description="attention score, in self-attention and cross-attention",
    )
    window: int | None = Field(
        None,
        ge=1,
        le=LENGTH,
        description="local self-attention: the greatest distance at which a position attends; "
        "none: any",
    )
    positions: Literal["sinusoidal", "learned", "none"] = Field(
        "sinusoidal",
        description="positional embedding; with none, the order of tokens is invisible",
    )
    max_positions: int = Field(
        512,
        ge=1,
        le=LENGTH,
        description="learned positions: how many there are; later ones share the last, and no "
        "target is longer",
    )
    scale_embedding: bool = Field(
        True,
        description="multiply embeddings by the square root of their size, as published",
    )

    @property
    def embedding(self) -> int:
        return self.size

    def ablations(self) -> Iterator[str]:
        """List parts that are left out or replaced on purpose, for experiments."""
        if self.norm not in ("pre", "post"):
            yield f"norm = {self.norm!r} ({'no' if self.norm == 'none' else 'batch'} normalisation)"
        if not self.residual:
            yield "residual = false (no residual connections)"
        if self.score == "cosine_plain":
            yield "score = 'cosine_plain' (no temperature, so that attention cannot be sharp)"

    @property
    def has_final_norm(self) -> bool:
        """True if there is a normalisation after the last layer."""
        if self.final_norm == "auto":
            return self.norm.startswith("pre")
        return self.final_norm == "on"

    @property
    def kind_of_final_norm(self) -> Norm:
        """Kind of the normalisation after the last layer."""
        if not self.has_final_norm:
            return "none"
        return "batch" if self.norm == "pre_batch" else "post"


class TransformerEncoderSettings(TransformerSettings):
    """Transformer encoder."""

    reads: ClassVar[str] = "text"


class TransformerDecoderSettings(TransformerSettings):
    """Transformer decoder."""

    causal: bool = Field(
        True,
        description="hide later target positions from self-attention; false: for experiments, in "
        "training the decoder then sees the tokens that it predicts",
    )

    def ablations(self) -> Iterator[str]:
        """List parts that are left out or replaced on purpose, for experiments."""
        yield from super().ablations()
        if not self.causal:
            yield "causal = false (no causal mask: training sees the answers)"


def _input_embedding(vocabulary: int, settings: TransformerSettings) -> InputEmbedding:
    s = settings
    embedding = Embedding(vocabulary, s.size, s.scale_embedding)
    positions: LearnedPositions | SinusoidalPositions | None = None
    if s.positions == "learned":
        positions = LearnedPositions(s.max_positions, s.size)
    elif s.positions == "sinusoidal":
        positions = SinusoidalPositions(s.size)
    return InputEmbedding(embedding, positions, s.dropout, s.word_dropout)


@as_defined
class EncoderLayer(ShardUnit):
    """Self-attention and feed-forward network, each with its residual.

    The self-attention is local if the settings have a `window`.
    """

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        size = settings.size
        self.self_attention = Attention(
            "encoder", size, size, size, settings.heads, settings.score
        )
        self.window = settings.window
        self.feedforward = FeedForward(size, settings.feedforward, settings.activation)
        self.self_attention_residual, self.feedforward_residual = (
            Residual(size, settings.norm, settings.dropout, settings.residual)
            for _ in range(2)
        )

    def forward(
        self, x: Float[Tensor, "B S D"], keep: Tensor | None
    ) -> Float[Tensor, "B S D"]:
        y = self.self_attention_residual.before(x)
        memory = self.self_attention.prepare(y, y, keep)
        y = self.self_attention(y, memory, window=self.window)
        x = self.self_attention_residual.after(x, y)

        y = self.feedforward(self.feedforward_residual.before(x))
        return self.feedforward_residual.after(x, y)


@as_defined
class DecoderLayer(ShardUnit):
    """Causal self-attention, cross-attention and feed-forward network, each with its residual."""

    def __init__(
        self, settings: TransformerDecoderSettings, source: EncoderSizes
    ) -> None:
        super().__init__()
        size = settings.size
        self.self_attention = Attention(
            "decoder", size, size, size, settings.heads, settings.score
        )
        self.cross_attention = Attention(
            "cross", size, source.size, size, settings.heads, settings.score
        )
        self.causal = settings.causal
        self.window = settings.window
        self.feedforward = FeedForward(size, settings.feedforward, settings.activation)
        (
            self.self_attention_residual,
            self.cross_attention_residual,
            self.feedforward_residual,
        ) = (
            Residual(size, settings.norm, settings.dropout, settings.residual)
            for _ in range(3)
        )

    def forward(
        self, x: Float[Tensor, "N T D"], past: Memory, source: Memory
    ) -> tuple[Float[Tensor, "N T D"], Memory]:
        """Run T positions; return the outputs and the KV cache with these positions appended.

        `past` is the KV cache of the self-attention.
        """
        y = self.self_attention_residual.before(x)
        new = self.self_attention.prepare(y, y)
        past = past.append(new.keys, new.values)
        y = self.self_attention(y, past, causal=self.causal, window=self.window)
        x = self.self_attention_residual.after(x, y)

        y = self.cross_attention(self.cross_attention_residual.before(x), source)
        x = self.cross_attention_residual.after(x, y)

        y = self.feedforward(self.feedforward_residual.before(x))
        return self.feedforward_residual.after(x, y), past


@as_defined
class TransformerEncoder(Encoder):
    """Transformer encoder: layers of self-attention over the source."""

    def __init__(self, settings: TransformerEncoderSettings, vocabulary: int) -> None:
        super().__init__()
        self.input_embedding = _input_embedding(vocabulary, settings)
        self.layers = ModuleList(EncoderLayer(settings) for _ in range(settings.layers))
        self.layer_dropout = settings.layer_dropout
        self.norm = make_norm(settings.size, settings.kind_of_final_norm)
        self.sizes = EncoderSizes(settings.size, 1, settings.size)

    @property
    def embedding(self) -> Embedding:  # type: ignore[override]
        return self.input_embedding.embedding

    def forward(self, batch: Batch) -> Encoded:
        B, S = batch.data.shape
        positions = batch.data.new_ones(B, S).cumsum(1) - 1
        embedded = x = self.input_embedding(batch.data, positions)
        for layer in self.layers:
            if not layer_drop(self.layer_dropout, self.training, x.device):
                x = layer(x, batch.keep)
        x = self.norm(x)
        return Encoded(x, embedded, masked_mean(x, batch.keep), batch.keep)


@as_defined
class TransformerDecoder(Decoder):
    """Transformer decoder; the state holds a KV cache per layer."""

    def __init__(
        self,
        settings: TransformerDecoderSettings,
        vocabulary: int,
        source: EncoderSizes,
    ) -> None:
        super().__init__()
        self.input_embedding = _input_embedding(vocabulary, settings)
        self.layers = ModuleList(
            DecoderLayer(settings, source) for _ in range(settings.layers)
        )
        self.layer_dropout = settings.layer_dropout
        self.norm = make_norm(settings.size, settings.kind_of_final_norm)
        self.output = OutputProjection(vocabulary, settings.size)
        self.max_target = (
            settings.max_positions if settings.positions == "learned" else None
        )

    @property
    def embedding(self) -> Embedding:  # type: ignore[override]
        return self.input_embedding.embedding

    def prepare(self, encoded: Encoded) -> Source:
        outputs = to_autocast(encoded.outputs)
        memories = tuple(
            layer.cross_attention.prepare(outputs, outputs, encoded.keep)
            for layer in self.layers
        )
        return Source(memories, encoded.summary, encoded.grid)

    def begin(self, source: Source) -> State:
        B = source.summary.shape[0]
        position = source.summary.new_zeros(B, dtype=int)  # type: ignore[call-overload]
        memories = {}
        for i, layer in enumerate(self.layers):
            memories[str(i)] = layer.self_attention.empty(B)
        return State(position, {}, memories)

    def step(
        self, tokens: Int[Tensor, "N T"], state: State, source: Source
    ) -> tuple[Float[Tensor, "N T D"], State]:
        T = tokens.shape[1]
        positions = state.position[:, None] + tokens.new_ones(T).cumsum(0) - 1
        x = self.input_embedding(tokens, positions)
        memories = {}
        for i, layer in enumerate(self.layers):
            memory = state.memories[str(i)]
            if not layer_drop(self.layer_dropout, self.training, x.device):
                x, memory = layer(x, memory, source.memories[i])
            memories[str(i)] = memory
        return self.norm(x), State(state.position + T, {}, memories)
