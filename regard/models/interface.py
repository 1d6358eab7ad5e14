"""The encoder-decoder interface: batch, encoder output, decoder state, and methods of a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch
from torch import nn

from regard.attention import Memory
from regard.common.errors import UsageError
from regard.common.monkey_patches import as_defined
from regard.common.plugins import Registry, naming_plugins
from regard.common.settings import Settings
from regard.common.shapes import Bool, Float, Int, Tensor
from regard.data.batch import pad, pad_images
from regard.data.vocabulary import EOS
from regard.layers.embedding import Embedding, OutputProjection

ENCODERS: Registry[type[Settings], type[Encoder]] = Registry("encoder")
"""Encoder class of each kind of settings."""
DECODERS: Registry[type[Settings], type[Decoder]] = Registry("decoder")
"""Decoder class of each kind of settings."""
C = TypeVar("C")
SourceInput = Sequence[int] | Tensor
"""One source: the token ids of a sentence, or the pixels (C, Y, X) of an image."""
TopTokens = tuple[Float[Tensor, "N k"], Int[Tensor, "N k"], Float[Tensor, " N"]]
"""Log-probabilities of the likeliest tokens, their ids, and the log-probability of EOS."""
PIXELS_PER_ENTRY = 16 * 16
"""Estimated pixels of an image cell, for batching, which does not know the image encoder."""


def register_encoder(name: str, settings: type[Settings]) -> Callable[[C], C]:
    """Return a decorator that registers a class of encoders and its settings, whose kind is `name`.

    Raises ConfigurationError if the name is taken.
    """
    return ENCODERS.register(name, settings)


def register_decoder(name: str, settings: type[Settings]) -> Callable[[C], C]:
    """Return a decorator that registers a class of decoders and its settings, whose kind is `name`.

    Raises ConfigurationError if the name is taken.
    """
    return DECODERS.register(name, settings)


@dataclass(frozen=True)
class Batch:
    """Input of an encoder: token ids (B, S) or pixels (B, C, Y, X), and the padding mask `keep`.

    `keep` is True for tokens (or pixels, row by row: S = Y·X) and False for padding; None means no
    padding.
    """

    data: Tensor
    keep: Bool[Tensor, "B S"] | None = None

    @classmethod
    def of(
        cls, sources: Sequence[SourceInput], device: torch.device | str = "cpu"
    ) -> Batch:
        """Pad sentences of any lengths, or images of any sizes, to one batch."""
        images = [source for source in sources if isinstance(source, Tensor)]
        sentences = [source for source in sources if not isinstance(source, Tensor)]
        assert not images or not sentences, (
            "a batch holds sentences or images, not both"
        )
        data, keep = pad_images(images) if images else pad(sentences)
        return cls(data.to(device), None if keep is None else keep.to(device))


def source_length(source: SourceInput) -> int:
    """Return the number of tokens of a sentence, or estimate the number of cells of an image."""
    if isinstance(source, Tensor):
        return -(-source[0].numel() // PIXELS_PER_ENTRY)
    return len(source)


@dataclass(frozen=True)
class Encoded:
    """Output of an encoder: a vector for each source position, and a summary of the source.

    `embedded` holds the embeddings from which the encoder started. From `summary` a decoder makes
    its first state: Regard's recurrent encoders give the last states of each layer, hidden states
    before LSTM cells, and the others the mean of the visible outputs (L = 1). It may be anything of
    this shape that padding does not change, also a view of `outputs`. `keep` is the padding mask;
    `grid` is (rows, columns) if the positions are image cells.
    """

    outputs: Float[Tensor, "B S D"]
    embedded: Float[Tensor, "B S De"]
    summary: Float[Tensor, "B L D"]
    keep: Bool[Tensor, "B S"] | None = None
    grid: tuple[int, int] | None = None


@dataclass(frozen=True)
class EncoderSizes:
    """Sizes of an encoder's output: D of a vector, L of the summary, De of an embedding."""

    size: int
    summary_rows: int
    embedding: int


@dataclass(frozen=True)
class Source:
    """Source side of decoding: the prepared cross-attention memories, and the summary.

    There is a memory for each decoder layer with cross-attention. `Decoder.prepare` computes a
    source once for each sentence, and the beams of a sentence share its row.
    """

    memories: tuple[Memory, ...]
    summary: Float[Tensor, "B L D"]
    grid: tuple[int, int] | None = None

    def select(self, sentences: Int[Tensor, " B2"]) -> Source:
        """Select sentences by index."""
        memories = tuple(memory.select(sentences) for memory in self.memories)
        summary = self.summary.index_select(0, sentences)
        return replace(self, memories=memories, summary=summary)

    def join(self, other: Source) -> Source:
        """Concatenate the sentences of two sources."""
        memories = tuple(
            first.join(second)
            for first, second in zip(self.memories, other.memories, strict=True)
        )
        summary = torch.cat([self.summary, other.summary])
        return replace(self, memories=memories, summary=summary)


@dataclass(frozen=True)
class State:
    """Decoder state of N hypotheses, as an immutable value: positions, tensors and KV caches.

    `step` returns a new state and leaves the old one valid. Beam search widens and reorders it with
    `select`. For a tensor with one value for each source entry, such as coverage (N, S),
    `source_axes` gives the axis of S by the tensor's name.
    """

    position: Int[Tensor, " N"]
    tensors: dict[str, Tensor]
    memories: dict[str, Memory]
    source_axes: Mapping[str, int] = field(default_factory=dict)

    def select(self, rows: Int[Tensor, " M"]) -> State:
        """Select hypotheses by index; they may be repeated, reordered or dropped."""
        position = self.position.index_select(0, rows)
        tensors = {
            name: tensor.index_select(0, rows) for name, tensor in self.tensors.items()
        }
        memories = {name: memory.select(rows) for name, memory in self.memories.items()}
        return replace(self, position=position, tensors=tensors, memories=memories)

    def join(self, other: State) -> State:
        """Concatenate the hypotheses of two states, so that new sentences enter a running batch.

        Along a source axis the shorter tensor is padded at its end with zeros, as memories are with
        hidden entries. Raises UsageError if the sizes of a tensor differ along another axis, or if
        only one state has it.
        """
        UsageError.raise_all(_join_obstacles(self, other))
        tensors = {}
        for name, tensor in self.tensors.items():
            axis = self.source_axes.get(name)
            tensors[name] = torch.cat(_padded(axis, tensor, other.tensors[name]))
        memories = {
            name: memory.join(other.memories[name])
            for name, memory in self.memories.items()
        }
        position = torch.cat([self.position, other.position])
        return replace(self, position=position, tensors=tensors, memories=memories)


def _join_obstacles(first: State, second: State) -> Iterator[str]:
    """Yield a sentence for each tensor of two states that cannot be concatenated."""
    first_names = {*first.tensors, *first.memories}
    second_names = {*second.tensors, *second.memories}
    unshared_names = first_names ^ second_names
    for name in sorted(unshared_names):
        yield (
            f"states cannot be joined: only one of them has {name!r}; let `begin` make all that "
            "`step` returns"
        )

    for name, tensor in first.tensors.items():
        if name in unshared_names:
            continue
        shapes = [list(tensor.shape[1:]), list(second.tensors[name].shape[1:])]
        # The sizes of a source axis may differ, so they are set to 0 before the comparison.
        compared = [list(shape) for shape in shapes]
        axis = first.source_axes.get(name)
        if axis is not None:
            for shape in compared:
                shape[axis % tensor.dim() - 1] = 0
        if compared[0] != compared[1]:
            yield (
                f"states cannot be joined: {name!r} has the shape {shapes[0]} for a hypothesis of "
                f"one and {shapes[1]} of the other; if an axis of it counts source entries, name "
                "it in `State.source_axes`"
            )


def _padded(axis: int | None, *tensors: Tensor) -> list[Tensor]:
    """Pad tensors with zeros along their source axis, if they have one, to the longest."""
    if axis is None:
        return list(tensors)
    longest = max(tensor.shape[axis] for tensor in tensors)
    padded = []
    for tensor in tensors:
        shape = list(tensor.shape)
        shape[axis] = longest - shape[axis]
        padded.append(torch.cat([tensor, tensor.new_zeros(shape)], axis))
    return padded


@as_defined
class ShardUnit(nn.Module):
    """Layer that FSDP wraps as one unit, so that its weights are gathered only while it computes.

    Only its `forward` and `Attention.prepare` use its weights, and only tensors pass between units.
    """


@as_defined
class Encoder(nn.Module, ABC):
    """Encoder of sentences or images; any decoder can attend to its output.

    `build` calls `__init__(settings, vocabulary)` of a registered class: with an object of the
    class of settings that it was registered with, and the number of source tokens, special ones
    included. It sets `sizes`, and `embedding` if it reads sentences.
    """

    sizes: EncoderSizes
    # Text encoders have an embedding.
    embedding: Embedding
    # Image encoders that can be initialised from pretrained weights have a backbone.
    backbone: nn.Module

    @abstractmethod
    def forward(self, batch: Batch) -> Encoded:
        """Encode a batch."""


@as_defined
class Decoder(nn.Module, ABC):
    """Autoregressive decoder.

    Teacher forcing over all positions and decoding step by step call the same `step`. `max_target`
    is the longest target in tokens, or None if there is no limit.
    """

    max_target: int | None = None
    embedding: Embedding
    output: OutputProjection

    @abstractmethod
    def prepare(self, encoded: Encoded) -> Source:
        """Compute all that depends on the source alone, such as cross-attention keys and values."""

    @abstractmethod
    def begin(self, source: Source) -> State:
        """Return the state before the first token, one row per sentence."""

    @abstractmethod
    def step(
        self, tokens: Int[Tensor, "N T"], state: State, source: Source
    ) -> tuple[Float[Tensor, "N T D"], State]:
        """Feed T ≥ 1 more tokens of N hypotheses; return their features and the next state.

        Hypothesis n attends to sentence n // (N // B) of the source. From the features of a
        position, `project` predicts the next token.
        """

    def project(self, features: Float[Tensor, "N T D"]) -> Float[Tensor, "N T V"]:
        """Map features to logits over the target vocabulary."""
        return self.output(features)  # type: ignore[no-any-return]


@as_defined
class Model(nn.Module):
    """Encoder-decoder model.

    Search uses its methods `encode`, `begin`, `step`, `project` and `top_tokens`.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    @property
    def max_target(self) -> int | None:
        """Longest target in tokens, or None if there is no limit."""
        return self.decoder.max_target

    @naming_plugins
    def encode(self, batch: Batch) -> Source:
        """Encode a batch and prepare it for decoding."""
        return self.decoder.prepare(self.encoder(batch))

    def begin(self, source: Source) -> State:
        return self.decoder.begin(source)

    @naming_plugins
    def step(
        self, tokens: Int[Tensor, "N T"], state: State, source: Source
    ) -> tuple[Float[Tensor, "N T D"], State]:
        return self.decoder.step(tokens, state, source)

    def project(self, features: Float[Tensor, "N T D"]) -> Float[Tensor, "N T V"]:
        return self.decoder.project(features)

    def top_tokens(
        self, features: Float[Tensor, "N T D"], k: int, suppressed: Sequence[int] = ()
    ) -> TopTokens:
        """Return the k likeliest next tokens of each hypothesis, after its last position.

        See the function `top_tokens`. This is a method so that a faster engine can find the tokens
        without the logits of the whole vocabulary.
        """
        return top_tokens(self.project(features[:, -1:])[:, 0], k, suppressed)

    @naming_plugins
    def forward(
        self, batch: Batch, target_in: Int[Tensor, "N T"]
    ) -> Float[Tensor, "N T D"]:
        """Return the features of all target positions by teacher forcing, in one step of decoding.

        With N = B·K targets, row b·K + k is the k-th target of source b, which is encoded once.
        """
        # Not by `encode` and `step`, after which sharded weights are let go.
        source = self.decoder.prepare(self.encoder(batch))
        state = self.decoder.begin(source)
        B = len(batch.data)
        N = len(target_in)
        assert N % B == 0, (
            f"expected the same number of targets for each of {B} sources, got {N} in all"
        )
        if N > B:
            sources = torch.arange(B, device=target_in.device)
            state = state.select(sources.repeat_interleave(N // B))
        features, _ = self.decoder.step(target_in, state, source)
        return features


def top_tokens(
    logits: Float[Tensor, "N V"], k: int, suppressed: Sequence[int] = ()
) -> TopTokens:
    """Return the k likeliest tokens of each row, likeliest first.

    The results are their log-probabilities, their ids, and the log-probability of EOS. All are
    normalised over the full vocabulary: `suppressed` tokens are left out of the k, not out of the
    softmax. Among equally likely tokens the lower id comes first; the other rows of the batch have
    no influence.
    """
    log_probs = logits.float().log_softmax(-1)
    eos_log_probs = log_probs[:, EOS].clone()
    for token in suppressed:
        log_probs[:, token] = -torch.inf
    if k == 1:
        top, tokens = log_probs.max(1, keepdim=True)
        return top, tokens, eos_log_probs

    # `topk` does not define the order of equal values, nor which of them it keeps. One more value
    # than asked for shows whether any are equal; their rows are then sorted.
    vocabulary = log_probs.shape[1]
    k_and_next = min(k + 1, vocabulary)
    k = min(k, vocabulary)
    top, tokens = log_probs.topk(k_and_next)
    tied = (top[:, 1:] == top[:, :-1]).any(1)
    if bool(tied.any()):
        rows = tied.nonzero()[:, 0]
        ordered, order = log_probs[rows].sort(descending=True, stable=True)
        top[rows] = ordered[:, :k_and_next]
        tokens[rows] = order[:, :k_and_next]
    return top[:, :k], tokens[:, :k], eos_log_probs
