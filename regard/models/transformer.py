"""Transformer encoder and decoder (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from pydantic import Field

from regard.attention import (
    Attention,
    AttentionPositions,
    Memory,
    NormaliserName,
    ScoreName,
)
from regard.common.monkey_patches import as_defined
from regard.common.settings import LENGTH, SIZE
from regard.common.shapes import Float, Int, Tensor
from regard.layers.dropout import layer_drop
from regard.layers.embedding import Embedding, OutputProjection
from regard.layers.feedforward import Activation, FeedForward
from regard.layers.input_embedding import InputEmbedding
from regard.layers.module_list import ModuleList
from regard.layers.positional_encoding import PositionEmbedding
from regard.layers.residual import Norm, Residual, make_norm, masked_mean, to_autocast
from regard.models.coverage import coverage_name, with_coverage
from regard.models.interface import (
    Batch,
    Decoder,
    Encoded,
    Encoder,
    EncoderSizes,
    ShardUnit,
    Source,
    State,
    register_decoder,
    register_encoder,
)
from regard.models.shared_settings import (
    POSITIONS,
    LayerCount,
    PartSettings,
    PositionsName,
    WordDropout,
)


class TransformerSettings(PartSettings):
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
    normaliser: NormaliserName = Field(
        "softmax", description="what turns the scores into weights"
    )
    window: int | None = Field(
        None,
        ge=1,
        le=LENGTH,
        description="local self-attention: the greatest distance at which a position attends; "
        "none: any",
    )
    positions: PositionsName = Field(
        "sinusoidal",
        description="positional embedding, or what self-attention sees of positions: rotary "
        "(RoPE), alibi (ALiBi); with none, the order of tokens is invisible",
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
    positions: PositionEmbedding | None = None
    kind = POSITIONS[s.positions]
    if issubclass(kind, PositionEmbedding) and s.positions != "none":
        positions = kind.of(s.size, s.max_positions)
    return InputEmbedding(embedding, positions, s.dropout, s.word_dropout)


def _attention(
    role: str,
    settings: TransformerSettings,
    entry_size: int,
    positions: type[AttentionPositions] | None = None,
) -> Attention:
    s = settings
    return Attention(
        role,
        s.size,
        entry_size,
        s.size,
        s.heads,
        s.score,
        normaliser=s.normaliser,
        positions=positions,
    )


def _self_attention(role: str, settings: TransformerSettings) -> Attention:
    positions = POSITIONS[settings.positions]
    if issubclass(positions, AttentionPositions):
        return _attention(role, settings, settings.size, positions)
    return _attention(role, settings, settings.size)


@as_defined
class EncoderLayer(ShardUnit):
    """Self-attention and feed-forward network, each with its residual.

    The self-attention is local if the settings have a `window`.
    """

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        size = settings.size
        self.self_attention = _self_attention("encoder", settings)
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
        self.self_attention = _self_attention("decoder", settings)
        self.cross_attention = _attention("cross", settings, source.size)
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
        self,
        x: Float[Tensor, "N T D"],
        past: Memory,
        source: Memory,
        coverage: Tensor | None = None,
    ) -> tuple[Float[Tensor, "N T D"], Memory, Tensor | None]:
        """Run T positions; return the outputs, the KV cache with these positions appended, and the
        coverage.

        `past` is the KV cache of the self-attention, `coverage` that of the cross-attention, if its
        score has one.
        """
        y = self.self_attention_residual.before(x)
        new = self.self_attention.prepare(y, y)
        past = past.append(new.keys, new.values)
        y = self.self_attention(y, past, causal=self.causal, window=self.window)
        x = self.self_attention_residual.after(x, y)

        y = self.cross_attention_residual.before(x)
        if coverage is None:
            y = self.cross_attention(y, source)
        else:
            query = self.cross_attention.query(y)
            y, coverage = self.cross_attention.attend_covered(query, source, coverage)
            y = self.cross_attention.output(y)
        x = self.cross_attention_residual.after(x, y)

        y = self.feedforward(self.feedforward_residual.before(x))
        return self.feedforward_residual.after(x, y), past, coverage


@register_encoder("transformer", TransformerEncoderSettings)
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


@register_decoder("transformer", TransformerDecoderSettings)
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
        positions = self.input_embedding.position_embedding
        self.max_target = positions.max_positions if positions else None

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
        attentions = [layer.cross_attention for layer in self.layers]
        return with_coverage(State(position, {}, memories), attentions, source)

    def step(
        self, tokens: Int[Tensor, "N T"], state: State, source: Source
    ) -> tuple[Float[Tensor, "N T D"], State]:
        T = tokens.shape[1]
        positions = state.position[:, None] + tokens.new_ones(T).cumsum(0) - 1
        x = self.input_embedding(tokens, positions)
        memories = {}
        tensors = dict(state.tensors)
        for i, layer in enumerate(self.layers):
            memory = state.memories[str(i)]
            coverage = tensors.get(coverage_name(i))
            if not layer_drop(self.layer_dropout, self.training, x.device):
                x, memory, coverage = layer(x, memory, source.memories[i], coverage)
            memories[str(i)] = memory
            if coverage is not None:
                tensors[coverage_name(i)] = coverage
        position = state.position + T
        next_state = replace(
            state, position=position, tensors=tensors, memories=memories
        )
        return self.norm(x), next_state
