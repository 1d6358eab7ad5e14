"""Training examples, and their batches as padded tensors: sentence pairs, or images with
captions.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard.common.shapes import Bool, Float, Int, Tensor
from regard.data.images import SourcePixels
from regard.data.vocabulary import BOS, PAD

Resample = Callable[[Sequence[int], int], "list[Example]"]
"""Makes the examples of some indices anew from a seed: other segmentations, other augmentations."""
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Example:
    """A sentence pair as token ids: both sides end with EOS, neither begins with BOS. Or an image,
    its first caption, and further captions that are learnt together with it.

    `links` is the word alignment as token positions: source, target, source, target …; None if
    there is none.
    """

    source: list[int] | SourcePixels
    target: list[int]
    extra_targets: tuple[list[int], ...] = ()
    links: array[int] | None = None

    @property
    def source_ids(self) -> list[int]:
        """The source of a sentence pair."""
        assert isinstance(self.source, list), "the source is a sentence, not an image"
        return self.source

    @property
    def targets(self) -> tuple[list[int], ...]:
        """All targets of the source."""
        return (self.target, *self.extra_targets)


@dataclass(frozen=True)
class TrainingBatch:
    """Batch of tensors for teacher forcing: the decoder reads `target_in` and has to predict
    `target_out`.

    The sources are sentences or images. With K targets each, N = B·K, and row b·K + k is target k
    of source b.
    """

    source: Tensor  # ids (B, S) or pixels (B, C, Y, X)
    source_keep: Bool[Tensor, "B _"] | None  # None: nothing is padded
    target_in: Int[Tensor, "N T"]  # BOS, then the target without its last token
    target_out: Int[Tensor, "N T"]
    tokens: int  # target tokens to predict: ends of sentence included, padding not
    indices: list[int]  # of the examples in the corpus
    links: Float[Tensor, "N T S"] | None = (
        None  # guided alignment: where each target token should attend; 0: anywhere
    )

    def to(self, device: torch.device | str) -> TrainingBatch:
        """Return the batch on another device."""
        moved: Any = {
            name: value.to(device)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def split(self, parts: int) -> list[TrainingBatch]:
        """Split into several batches of the same width."""
        count = len(self.indices)
        return [
            self._select_rows(list(range(count)[start::parts]))
            for start in range(min(parts, count))
        ]

    def _select_rows(self, rows: list[int]) -> TrainingBatch:
        keep = None if self.source_keep is None else self.source_keep[rows]
        K = len(self.target_out) // len(self.source)
        targets = [row * K + k for row in rows for k in range(K)]
        links = None if self.links is None else self.links[targets]
        out = self.target_out[targets]
        indices = [self.indices[row] for row in rows]
        tokens = int((out != PAD).sum())
        return TrainingBatch(
            self.source[rows],
            keep,
            self.target_in[targets],
            out,
            tokens,
            indices,
            links,
        )


def pad(
    sequences: Sequence[Sequence[int]],
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"] | None]:
    """Pad sequences of ids to equal length with PAD; also return the keep mask, or None if nothing
    is padded.
    """
    assert sequences, "a batch holds at least one sentence"
    lengths = np.array([len(sequence) for sequence in sequences])
    keep = np.arange(lengths.max()) < lengths[:, None]  # (B, S)
    ids = np.full(keep.shape, PAD, dtype=np.int64)
    ids[keep] = np.concatenate(
        [np.asarray(sequence, dtype=np.int64) for sequence in sequences]
    )
    return torch.from_numpy(ids), None if keep.all() else torch.from_numpy(keep)


def pad_images(
    images: Sequence[Float[Tensor, "C _ _"]],
) -> tuple[Float[Tensor, "B C Y X"], Bool[Tensor, "B _"] | None]:
    """Pad images (C, Y, X) of any sizes with zeros at the right and the bottom.

    Also returns the keep mask of the pixels, row by row, (B, Y·X), or None if nothing is padded.
    """
    assert images, "a batch holds at least one image"
    Y, X = (max(image.shape[side] for image in images) for side in (1, 2))
    if all(image.shape[1:] == (Y, X) for image in images):
        return torch.stack(list(images)), None
    pixels = images[0].new_zeros(len(images), images[0].shape[0], Y, X)
    keep = torch.zeros(len(images), Y, X, dtype=torch.bool, device=pixels.device)
    for row, image in enumerate(images):
        _, height, width = image.shape
        pixels[row, :, :height, :width] = image
        keep[row, :height, :width] = True
    return pixels, keep.flatten(1)


def collate(
    examples: Sequence[Example], indices: Sequence[int] | None = None
) -> TrainingBatch:
    """Collate examples into a batch; `indices` are theirs in the corpus (default: 0, 1, 2 …)."""
    if isinstance(examples[0].source, SourcePixels):
        source, keep = pad_images(
            _image_tensors(
                [e.source for e in examples if isinstance(e.source, SourcePixels)]
            )
        )
    else:
        source, keep = pad([example.source_ids for example in examples])
    targets = [target for example in examples for target in example.targets]
    target_out, _ = pad(targets)
    target_in, _ = pad([[BOS, *target[:-1]] for target in targets])
    links = _alignment_targets(examples, target_out.shape[1], source.shape[1])
    numbers = list(range(len(examples)) if indices is None else indices)
    return TrainingBatch(
        source, keep, target_in, target_out, sum(map(len, targets)), numbers, links
    )


def _image_tensors(images: Sequence[SourcePixels]) -> list[Tensor]:
    """Augment the images, on several threads if there are more cores than training uses."""
    spare = min(8, (os.cpu_count() or 1) - 4)
    if spare < 2:
        return [image.tensor() for image in images]
    with ThreadPoolExecutor(spare, "images") as threads:
        return list(threads.map(SourcePixels.tensor, images))


def _alignment_targets(
    examples: Sequence[Example], T: int, S: int
) -> Float[Tensor, "B T S"] | None:
    """Return the alignment links as attention weights: each linked target token spreads 1 evenly
    over its links.

    None if no example has any.
    """
    if all(example.links is None for example in examples):
        return None
    weights = np.zeros((len(examples), T, S), dtype=np.float32)
    for example, rows in zip(examples, weights, strict=True):
        if example.links:
            sources, targets = (
                np.frombuffer(example.links, dtype=np.intc).reshape(-1, 2).T
            )
            rows[targets, sources] = 1
    weights /= np.maximum(weights.sum(2, keepdims=True), 1)
    return torch.from_numpy(weights)
