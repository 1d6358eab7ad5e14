"""Convolutional encoder and decoder (convolutional sequence-to-sequence, Gehring et al. 2017)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import nn

from regard.attention import Attention, Memory
from regard.common.monkey_patches import as_defined
from regard.common.settings import LENGTH, SIZE
from regard.common.shapes import Float, Int, Tensor
from regard.layers.convolution import SQRT_HALF, GatedConvolution, WeightNormLinear
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding, OutputProjection
from regard.layers.input_embedding import InputEmbedding
from regard.layers.module_list import ModuleList
from regard.layers.positional_encoding import LearnedPositions
from regard.layers.residual import masked_mean, to_autocast
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
    PartSettings,
    WordDropout,
)


class ConvolutionalSettings(PartSettings):
    """Settings common to the convolutional encoder and decoder."""

    kind: Literal["convolutional"] = "convolutional"
    layers: LayerCount = 4
    size: int = Field(
        256, ge=1, le=SIZE, description="size of the vectors between layers"
    )
    kernel_size: int = Field(
        3, ge=1, le=LENGTH, description="positions in a convolution kernel"
    )
    embedding: int = Field(
        256, ge=1, le=SIZE, description="size of the embeddings and of the output"
    )
    max_positions: int = Field(
        512,
        ge=1,
        le=LENGTH,
        description="learned positions: how many there are; later ones share the last, and no "
        "target is longer",
    )
    dropout: float = Field(
        0.2, ge=0, lt=1, description="dropout after embeddings and before layers"
    )
    word_dropout: WordDropout = 0.0


class ConvolutionalEncoderSettings(ConvolutionalSettings):
    """Convolutional encoder, with kernels centred on each position."""


class ConvolutionalDecoderSettings(ConvolutionalSettings):
    """Convolutional decoder, with causal kernels and attention in every layer."""

    score: CrossAttentionScore = "dot"
    normaliser: CrossAttentionNormaliser = "softmax"


def _input_embedding(
    vocabulary: int, settings: ConvolutionalSettings
) -> InputEmbedding:
    s = settings
    return InputEmbedding(
        Embedding(vocabulary, s.embedding, scale_embedding=False),
        LearnedPositions(s.max_positions, s.embedding),
        s.dropout,
        s.word_dropout,
    )


@register_encoder("convolutional", ConvolutionalEncoderSettings)
@as_defined
class ConvolutionalEncoder(Encoder):
    """Layers of gated convolutions over the source; padding is zeroed after each."""

    def __init__(self, settings: ConvolutionalEncoderSettings, vocabulary: int) -> None:
        super().__init__()
        s = settings
        self.input_embedding = _input_embedding(vocabulary, s)
        self.dropout = Dropout(s.dropout)
        self.widen = WeightNormLinear(s.embedding, s.size, s.dropout)
        self.narrow = WeightNormLinear(s.size, s.embedding)
        self.layers = ModuleList(
            GatedConvolution(s.size, s.kernel_size, s.dropout) for _ in range(s.layers)
        )
        # Arguments of F.pad: no padding of the size, then the positions before and after.
        self.padding = (0, 0, (s.kernel_size - 1) // 2, s.kernel_size // 2)
        self.sizes = EncoderSizes(s.embedding, 1, s.embedding)

    @property
    def embedding(self) -> Embedding:  # type: ignore[override]
        return self.input_embedding.embedding

    def forward(self, batch: Batch) -> Encoded:
        hidden = None if batch.keep is None else ~batch.keep.unsqueeze(-1)
        positions = torch.ones_like(batch.data).cumsum(1) - 1
        embedded = _zeroed(self.input_embedding(batch.data, positions), hidden)
        x = _zeroed(self.widen(embedded).float(), hidden)
        for layer in self.layers:
            padded = F.pad(self.dropout(x), self.padding)
            x = _zeroed((layer(to_autocast(padded)) + x) * SQRT_HALF, hidden)
        outputs = _zeroed(self.narrow(x), hidden)
        return Encoded(outputs, embedded, masked_mean(outputs, batch.keep), batch.keep)


@as_defined
class ConvolutionalDecoderLayer(nn.Module):
    """Causal convolution, then attention queried by its output plus the target embedding."""

    def __init__(
        self, settings: ConvolutionalDecoderSettings, source: EncoderSizes
    ) -> None:
        super().__init__()
        s = settings
        self.convolution = GatedConvolution(s.size, s.kernel_size, s.dropout)
        self.dropout = Dropout(s.dropout)
        self.query_in = WeightNormLinear(s.size, source.size)
        self.context_out = WeightNormLinear(source.size, s.size)
        self.cross_attention = Attention(
            "cross",
            source.size,
            source.size,
            source.size,
            score_name=s.score,
            project_keys=False,
            project_values=False,
            normaliser=s.normaliser,
        )

    def forward(
        self,
        x: Float[Tensor, "N T D"],
        window: Tensor,
        target: Float[Tensor, "N T Dk"],
        source: tuple[Memory, dict[str, Tensor], int],
    ) -> tuple[Float[Tensor, "N T D"], Tensor]:
        """Run T positions; return the outputs and the new window.

        `window` (N, kernel_size − 1, D) holds the layer's previous inputs; `target` holds the
        embeddings of the tokens. `source` is the memory, the tensors of the state, in which a
        coverage is replaced, and the number of the layer.
        """
        memory = source[0]
        inputs = torch.cat([window, self.dropout(x)], 1)
        y = self.convolution(to_autocast(inputs))
        query = (self.query_in(y) + target) * SQRT_HALF
        context = attend_to_source(self.cross_attention, query, *source)
        # A mean of n entries has up to √n times less spread than one entry (section 3.4).
        context = context * _visible_entries(memory, len(x)).sqrt()
        y = (y + self.context_out(context)) * SQRT_HALF
        return (y + x) * SQRT_HALF, inputs[:, inputs.shape[1] - window.shape[1] :]


@register_decoder("convolutional", ConvolutionalDecoderSettings)
@as_defined
class ConvolutionalDecoder(Decoder):
    """Layers of causal convolution and attention.

    The state holds each layer's last kernel_size − 1 inputs.
    """

    def __init__(
        self,
        settings: ConvolutionalDecoderSettings,
        vocabulary: int,
        source: EncoderSizes,
    ) -> None:
        super().__init__()
        s = settings
        self.input_embedding = _input_embedding(vocabulary, s)
        self.dropout = Dropout(s.dropout)
        self.max_target = s.max_positions
        self.widen = WeightNormLinear(s.embedding, s.size, s.dropout)
        self.narrow = WeightNormLinear(s.size, s.embedding)
        self.layers = ModuleList(
            ConvolutionalDecoderLayer(s, source) for _ in range(s.layers)
        )
        self.fit_target = _fit(s.embedding, source.size)
        self.fit_source = _fit(source.embedding, source.size)
        self.output = OutputProjection(vocabulary, s.embedding)
        self.window = (s.kernel_size - 1, s.size)

    @property
    def embedding(self) -> Embedding:  # type: ignore[override]
        return self.input_embedding.embedding

    def prepare(self, encoded: Encoded) -> Source:
        """Prepare the memories of cross-attention: encoder outputs are the keys.

        The values are the sums of outputs and embeddings (section 3.3), because the embeddings
        identify the tokens themselves.
        """
        sums = encoded.outputs + self.fit_source(encoded.embedded)
        values = to_autocast(sums * SQRT_HALF)
        outputs = to_autocast(encoded.outputs)
        memories = tuple(
            layer.cross_attention.prepare(outputs, values, encoded.keep)
            for layer in self.layers
        )
        return Source(memories, encoded.summary, encoded.grid)

    def begin(self, source: Source) -> State:
        B = len(source.summary)
        windows = {
            f"window.{i}": source.summary.new_zeros(B, *self.window)
            for i in range(len(self.layers))
        }
        position = source.summary.new_zeros(B, dtype=int)  # type: ignore[call-overload]
        attentions = [layer.cross_attention for layer in self.layers]
        return with_coverage(State(position, windows, {}), attentions, source)

    def step(
        self, tokens: Int[Tensor, "N T"], state: State, source: Source
    ) -> tuple[Float[Tensor, "N T D"], State]:
        T = tokens.shape[1]
        positions = state.position[:, None] + tokens.new_ones(T).cumsum(0) - 1
        embedded = self.input_embedding(tokens, positions)
        x = self.widen(embedded).float()
        target = self.fit_target(embedded)
        tensors = dict(state.tensors)
        for i, layer in enumerate(self.layers):
            name = f"window.{i}"
            layer_source = (source.memories[i], tensors, i)
            x, tensors[name] = layer(x, tensors[name], target, layer_source)
        next_state = replace(state, position=state.position + T, tensors=tensors)
        return self.dropout(self.narrow(x)), next_state


def _fit(size: int, target_size: int) -> nn.Module:
    """Create a projection between sizes, or the identity if they are equal."""
    return nn.Identity() if size == target_size else WeightNormLinear(size, target_size)


def _zeroed(x: Float[Tensor, "B S D"], hidden: Tensor | None) -> Float[Tensor, "B S D"]:
    return x if hidden is None else x.masked_fill(hidden, 0)


def _visible_entries(memory: Memory, rows: int) -> Tensor:
    """Count the visible entries of each of N rows: (N, 1, 1), or (1, 1, 1) without a mask."""
    if memory.keep is None:
        return memory.keys.new_full((1, 1, 1), memory.entries, dtype=torch.float32)
    counts = memory.keep.sum(1).float()
    return counts.repeat_interleave(rows // memory.rows)[:, None, None]
