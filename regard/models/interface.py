"""The doors between data, encoder, decoder and search: what every model takes and gives, whatever it is inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from regard.attention import Memory
from regard.data.batch import pad, pad_images
from regard.data.vocabulary import EOS
from regard.layers.embedding import Embedding, OutputProjection
from regard.shapes import Bool, Float, Int, Tensor

__all__ = [
    "Batch",
    "Decoder",
    "Encoded",
    "Encoder",
    "EncoderSizes",
    "Model",
    "ShardUnit",
    "Source",
    "SourceInput",
    "State",
    "source_length",
    "top_tokens",
]

SourceInput = Sequence[int] | Tensor
"""One source as it comes: the pieces of a sentence, or the pixels (C, Y, X) of a picture."""
CELL = 16 * 16
"""Pixels that count as one entry where nobody knows yet how many a model makes of them."""


@dataclass(frozen=True)
class Batch:
    """What goes into an encoder: piece ids (B, S) or pixels (B, C, Y, X), and which of them are real (None: all)."""

    data: Tensor
    keep: Bool[Tensor, "B S"] | None = None

    @classmethod
    def of(cls, sources: Sequence[SourceInput], device: torch.device | str = "cpu") -> Batch:
        """Sentences or pictures of any sizes side by side."""
        pictures = [source for source in sources if isinstance(source, Tensor)]
        sentences = [source for source in sources if not isinstance(source, Tensor)]
        assert not pictures or not sentences, "a batch holds sentences or pictures"
        data, keep = pad_images(pictures) if pictures else pad(sentences)
        return cls(data.to(device), None if keep is None else keep.to(device))


def source_length(source: SourceInput) -> int:
    """About how many entries a source has: its pieces, or cells of a usual size."""
    return -(-source[0].numel() // CELL) if isinstance(source, Tensor) else len(source)


@dataclass(frozen=True)
class Encoded:
    """What an encoder says: a vector for each entry, the embeddings it began with, and a summary of the whole.

    `summary` holds the last states of each layer, cells after hiddens; where there are none, the mean of the outputs.
    """

    outputs: Float[Tensor, "B S D"]
    embedded: Float[Tensor, "B S De"]
    summary: Float[Tensor, "B L D"]
    keep: Bool[Tensor, "B S"] | None = None
    grid: tuple[int, int] | None = None


@dataclass(frozen=True)
class EncoderSizes:
    """How large what an encoder says is: the size of a vector, the rows of its summary, the size of its embeddings."""

    size: int
    rows: int
    embedded: int


@dataclass(frozen=True)
class Source:
    """What a decoder reads: a memory prepared once for each reading layer, one row a sentence, and the summary."""

    memories: tuple[Memory, ...]
    summary: Float[Tensor, "B L D"]
    grid: tuple[int, int] | None = None

    def select(self, sentences: Int[Tensor, " B2"]) -> Source:
        """The source of some of the sentences, in the order named."""
        memories = tuple(memory.select(sentences) for memory in self.memories)
        return replace(self, memories=memories, summary=self.summary.index_select(0, sentences))

    def join(self, other: Source) -> Source:
        """The sentences of both."""
        memories = tuple(mine.join(theirs) for mine, theirs in zip(self.memories, other.memories, strict=True))
        return replace(self, memories=memories, summary=torch.cat([self.summary, other.summary]))


@dataclass(frozen=True)
class State:
    """Where each hypothesis stands, as a value: it can be stepped from again, widened, reordered and joined."""

    position: Int[Tensor, " N"]
    tensors: dict[str, Tensor]
    memories: dict[str, Memory]

    def select(self, rows: Int[Tensor, " M"]) -> State:
        """The state of other rows: repeated, reordered or dropped, as `rows` names them."""
        return State(
            self.position.index_select(0, rows),
            {name: tensor.index_select(0, rows) for name, tensor in self.tensors.items()},
            {name: memory.select(rows) for name, memory in self.memories.items()},
        )

    def join(self, other: State) -> State:
        """The rows of both: new sentences enter."""
        return State(
            torch.cat([self.position, other.position]),
            {name: torch.cat([tensor, other.tensors[name]]) for name, tensor in self.tensors.items()},
            {name: memory.join(other.memories[name]) for name, memory in self.memories.items()},
        )


class ShardUnit(nn.Module):
    """One of many parts that stand one on another. Between the parts only tensors go in and out, and nothing but its
    forward and what its reads prepare needs its weights: so they need not be there while another one computes.
    """


class Encoder(nn.Module, ABC):
    """Reads a batch; any decoder can read what it says."""

    shape: EncoderSizes
    embedding: Embedding  # of those that read pieces
    backbone: nn.Module  # of those that can begin from published weights: what these are for

    @abstractmethod
    def forward(self, batch: Batch) -> Encoded:
        """Encode every entry of the batch in the light of the others."""

    def dummy_batch(self, rows: int) -> Batch:
        """Something to read, where only the time that it takes is of interest."""
        return Batch(torch.full((rows, 16), EOS))


class Decoder(nn.Module, ABC):
    """Writes a target piece by piece, all at once or step by step with the same code."""

    max_target: int | None = None
    embedding: Embedding
    output: OutputProjection

    @abstractmethod
    def prepare(self, encoded: Encoded) -> Source:
        """What can be computed from the source once, before the first piece."""

    @abstractmethod
    def begin(self, source: Source) -> State:
        """The state before the first piece, one row a sentence."""

    @abstractmethod
    def step(self, tokens: Int[Tensor, "N T"], state: State, source: Source) -> tuple[Float[Tensor, "N T D"], State]:
        """Take T ≥ 1 more pieces in; row n of N reads sentence n // (N // B) of the source."""

    def project(self, features: Float[Tensor, "N T D"]) -> Float[Tensor, "N T V"]:
        """Features into logits."""
        return self.output(features)  # type: ignore[no-any-return]


class Model(nn.Module):
    """An encoder and a decoder, any with any."""

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def max_target(self) -> int | None:
        """The longest target that the decoder can write, if there is one."""
        return self.decoder.max_target

    def encode(self, batch: Batch) -> Source:
        """Read a batch, and prepare it for decoding."""
        return self.decoder.prepare(self.encoder(batch))

    def begin(self, source: Source) -> State:
        return self.decoder.begin(source)

    def step(self, tokens: Int[Tensor, "N T"], state: State, source: Source) -> tuple[Float[Tensor, "N T D"], State]:
        return self.decoder.step(tokens, state, source)

    def project(self, features: Float[Tensor, "N T D"]) -> Float[Tensor, "N T V"]:
        return self.decoder.project(features)

    def top_tokens(
        self, features: Float[Tensor, "N T D"], k: int, suppressed: Sequence[int] = ()
    ) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"], Float[Tensor, " N"]]:
        """What may be written next: `best_of` the last position's distributions.

        A faster engine may compute the same in its own way, without ever holding the logits of the whole vocabulary.
        """
        return top_tokens(self.project(features[:, -1:])[:, 0], k, suppressed)

    def forward(self, batch: Batch, target_in: Int[Tensor, "N T"]) -> Float[Tensor, "N T D"]:
        """Teacher forcing: the features of every position of a given target. The same code as decoding, in one step.

        Of N = B·K targets row b·K + k is the k-th of source b, which is read once for all of them.
        """
        source = self.decoder.prepare(self.encoder(batch))
        state, B, N = self.decoder.begin(source), len(batch.data), len(target_in)
        assert N % B == 0, f"as many targets for each of {B} sources, got {N} in all"
        if N > B:
            state = state.select(torch.arange(B, device=target_in.device).repeat_interleave(N // B))
        return self.decoder.step(target_in, state, source)[0]


def top_tokens(
    logits: Float[Tensor, "N V"], k: int, suppressed: Sequence[int] = ()
) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"], Float[Tensor, " N"]]:
    """The log-probabilities of each row's k likeliest pieces, likeliest first; those pieces; that of end of sentence.

    All are of the full vocabulary: the pieces that are `never` written are left out of the k, not out of the sum. Of
    equally likely pieces the one with the lower number comes first, whatever stands in the other rows.
    """
    likely = logits.float().log_softmax(-1)
    end = likely[:, EOS].clone()
    for piece in suppressed:
        likely[:, piece] = -torch.inf
    if k == 1:
        top, pieces = likely.max(1, keepdim=True)
        return top, pieces, end
    k, more = min(k, likely.shape[1]), min(k + 1, likely.shape[1])
    top, pieces = likely.topk(more)
    tied = (top[:, 1:] == top[:, :-1]).any(1)
    if bool(tied.any()):  # topk promises no order among equals, nor which of them it keeps
        rows = tied.nonzero()[:, 0]
        ordered, order = likely[rows].sort(descending=True, stable=True)
        top[rows], pieces[rows] = ordered[:, :more], order[:, :more]
    return top[:, :k], pieces[:, :k], end
