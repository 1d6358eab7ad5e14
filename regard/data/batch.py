"""Examples, and a batch of them as tensors: sentence pairs, or pictures with their captions."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from regard.data.images import SourcePixels
from regard.data.pixels import pad_images
from regard.data.vocabulary import BOS, PAD
from regard.shapes import Bool, Float, Int, Tensor

__all__ = ["Example", "IntArray", "Resample", "StoredExamples", "TrainingBatch", "collate", "pad"]

Resample = Callable[[Sequence[int], int], "list[Example]"]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Example:
    """One pair as ids: both end with EOS, neither begins with BOS. Or a picture, its first caption and `more` of them,
    which are learnt together.

    `links` are places of pieces that belong together: source, target, source, target …; None where nobody knows any.
    """

    source: list[int] | SourcePixels
    target: list[int]
    extra_targets: tuple[list[int], ...] = ()
    links: array[int] | None = None

    @property
    def source_ids(self) -> list[int]:
        """The source of a pair of sentences."""
        assert isinstance(self.source, list), "sentences are wanted, not pictures"
        return self.source

    @property
    def targets(self) -> tuple[list[int], ...]:
        """All that is to be said of the source."""
        return (self.target, *self.extra_targets)


class StoredExamples(Sequence[Example]):
    """Examples kept elsewhere than in memory, whose lengths are known without reading them."""

    def lengths(self, indices: Sequence[int]) -> tuple[IntArray, IntArray]:
        """The lengths of both sides of these examples, ends included."""
        raise NotImplementedError


@dataclass(frozen=True)
class TrainingBatch:
    """Sentence pairs, or pictures and their captions, as tensors: teacher forcing reads `target_in` and is to say
    `target_out`. Of N = B·K targets row b·K + k is the k-th of source b.
    """

    source: Tensor  # ids (B, S) or pixels (B, C, Y, X)
    source_keep: Bool[Tensor, "B _"] | None  # None: nothing is padded
    target_in: Int[Tensor, "N T"]  # BOS, then the target without its last piece
    target_out: Int[Tensor, "N T"]
    tokens: int  # target pieces to predict, ends included, padding not
    indices: list[int]  # which examples these are
    links: Float[Tensor, "N T S"] | None = None  # where each target piece should look; a row of nought: anywhere

    def to(self, device: torch.device | str) -> TrainingBatch:
        """The same batch on another device."""
        keep = None if self.source_keep is None else self.source_keep.to(device)
        links = None if self.links is None else self.links.to(device)
        sides = (self.source.to(device), self.target_in.to(device), self.target_out.to(device))
        return replace(self, source=sides[0], source_keep=keep, target_in=sides[1], target_out=sides[2], links=links)

    def split(self, parts: int) -> list[TrainingBatch]:
        """The same sentences in several batches, padded as they are here."""
        rows = [range(len(self.indices))[i::parts] for i in range(min(parts, len(self.indices)))]
        return [self._select_rows(list(some)) for some in rows]

    def _select_rows(self, rows: list[int]) -> TrainingBatch:
        keep = None if self.source_keep is None else self.source_keep[rows]
        K = len(self.target_out) // len(self.source)
        targets = [row * K + k for row in rows for k in range(K)]
        links = None if self.links is None else self.links[targets]
        out, lines = self.target_out[targets], [self.indices[row] for row in rows]
        tokens = int((out != PAD).sum())
        return TrainingBatch(self.source[rows], keep, self.target_in[targets], out, tokens, lines, links)


def pad(sequences: Sequence[Sequence[int]]) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"] | None]:
    """Rows of equal length, filled up with PAD, and what may be read of them (None: everything)."""
    assert sequences, "a batch holds at least one sentence"
    lengths = np.array([len(sequence) for sequence in sequences])
    keep = np.arange(lengths.max()) < lengths[:, None]  # (B, S)
    ids = np.full(keep.shape, PAD, dtype=np.int64)
    ids[keep] = np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in sequences])
    return torch.from_numpy(ids), None if keep.all() else torch.from_numpy(keep)


def collate(examples: Sequence[Example], indices: Sequence[int] | None = None) -> TrainingBatch:
    """One batch of these examples; `lines` says which they are (default: 0, 1, 2 …)."""
    source, keep = _pad_sources(examples)
    targets = [target for example in examples for target in example.targets]
    target_out, _ = pad(targets)
    target_in, _ = pad([[BOS, *target[:-1]] for target in targets])
    numbers = range(len(examples)) if indices is None else indices
    links = _alignment_targets(examples, target_out.shape[1], source.shape[1])
    return TrainingBatch(source, keep, target_in, target_out, sum(map(len, targets)), list(numbers), links)


def _pad_sources(examples: Sequence[Example]) -> tuple[Tensor, Tensor | None]:
    """Ids or pixels of one size, and which of them are real."""
    if isinstance(examples[0].source, SourcePixels):
        return pad_images(_image_tensors([e.source for e in examples if isinstance(e.source, SourcePixels)]))
    return pad([example.source_ids for example in examples])


def _image_tensors(pictures: Sequence[SourcePixels]) -> list[Tensor]:
    """What is seen of each, by several threads where there are cores to spare beside those that train."""
    spare = min(8, (os.cpu_count() or 1) - 4)
    if spare < 2:
        return [picture.tensor() for picture in pictures]
    with ThreadPoolExecutor(spare, "pictures") as threads:
        return list(threads.map(SourcePixels.tensor, pictures))


def _alignment_targets(examples: Sequence[Example], T: int, S: int) -> Float[Tensor, "B T S"] | None:
    """The links as shares: each target piece that has some spreads one over them. None where no example has any."""
    if all(example.links is None for example in examples):
        return None
    shares = np.zeros((len(examples), T, S), dtype=np.float32)
    for example, share in zip(examples, shares, strict=True):
        if example.links:
            sources, targets = np.frombuffer(example.links, dtype=np.intc).reshape(-1, 2).T
            share[targets, sources] = 1
    shares /= np.maximum(shares.sum(2, keepdims=True), 1)
    return torch.from_numpy(shares)
