"""Training examples (sentence pairs, or images with captions) and their batches of padded
tensors.
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
"""Makes the examples of these indices anew from a seed, with another segmentation or
augmentation.
"""
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Example:
    """A sentence pair, or an image with its captions, as token ids that end with EOS and do not
    begin with BOS.
    """

    source: list[int] | SourcePixels
    target: list[int]
    # Further captions of an image, which are learnt together with the first.
    extra_targets: tuple[list[int], ...] = ()
    # Word alignment as token positions: source, target, source, target …
    links: array[int] | None = None

    @property
    def source_ids(self) -> list[int]:
        """The source of a sentence pair as token ids."""
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

    The sources are sentences or images. If each source has K targets, then N = B·K, and row b·K + k
    is target k of source b.

    `links`, of data with word alignments, holds a distribution over the source tokens for each
    target token: the tokens of linked words have equal parts. Its row is zero for EOS, for padding
    and for a token without links.
    """

    source: Tensor  # ids (B, S) or pixels (B, C, Y, X)
    source_keep: Bool[Tensor, "B _"] | None  # None if nothing is padded
    target_in: Int[Tensor, "N T"]  # BOS, then the target without its last token
    target_out: Int[Tensor, "N T"]
    tokens: int  # target tokens to predict, with EOS and without padding
    indices: list[int]  # of the examples in the corpus
    links: Float[Tensor, "N T S"] | None = None

    def to(self, device: torch.device | str) -> TrainingBatch:
        """Return the batch on another device."""
        moved: Any = {
            name: value.to(device)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def split(self, parts: int) -> list[TrainingBatch]:
        """Split the batch into several of the same width."""
        count = len(self.indices)
        return [
            self._select_rows(list(range(start, count, parts)))
            for start in range(min(parts, count))
        ]

    def _select_rows(self, rows: list[int]) -> TrainingBatch:
        K = len(self.target_out) // len(self.source)
        target_rows = [row * K + k for row in rows for k in range(K)]
        target_out = self.target_out[target_rows]
        return TrainingBatch(
            source=self.source[rows],
            source_keep=None if self.source_keep is None else self.source_keep[rows],
            target_in=self.target_in[target_rows],
            target_out=target_out,
            tokens=int((target_out != PAD).sum()),
            indices=[self.indices[row] for row in rows],
            links=None if self.links is None else self.links[target_rows],
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

    Also return the keep mask of the pixels, row by row, (B, Y·X), or None if nothing is padded.
    """
    assert images, "a batch holds at least one image"
    Y = max(image.shape[1] for image in images)
    X = max(image.shape[2] for image in images)
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
    """Collate examples into a batch; `indices` are their indices in the corpus (default: 0, 1,
    2 …).
    """
    images = [
        example.source
        for example in examples
        if isinstance(example.source, SourcePixels)
    ]
    if images:
        source, keep = pad_images(_image_tensors(images))
    else:
        source, keep = pad([example.source_ids for example in examples])

    targets = [target for example in examples for target in example.targets]
    target_out, _ = pad(targets)
    target_in, _ = pad([[BOS, *target[:-1]] for target in targets])
    return TrainingBatch(
        source=source,
        source_keep=keep,
        target_in=target_in,
        target_out=target_out,
        tokens=sum(map(len, targets)),
        indices=list(range(len(examples)) if indices is None else indices),
        links=_alignment_targets(examples, target_out.shape[1], source.shape[1]),
    )


def _image_tensors(images: Sequence[SourcePixels]) -> list[Tensor]:
    """Augment the images, on several threads if there are more cores than training uses."""
    spare_cores = min(8, (os.cpu_count() or 1) - 4)
    if spare_cores < 2:
        return [image.tensor() for image in images]
    with ThreadPoolExecutor(spare_cores, "images") as threads:
        return list(threads.map(SourcePixels.tensor, images))


def _alignment_targets(
    examples: Sequence[Example], T: int, S: int
) -> Float[Tensor, "B T S"] | None:
    """Return the word links as attention weights: each linked target token attends evenly to the
    source tokens that it is linked to.

    Returns None if no example has links.
    """
    if all(example.links is None for example in examples):
        return None
    weights = np.zeros((len(examples), T, S), dtype=np.float32)
    for example, rows in zip(examples, weights, strict=True):
        if example.links:
            links = np.frombuffer(example.links, dtype=np.intc).reshape(-1, 2)
            rows[links[:, 1], links[:, 0]] = 1
    weights /= np.maximum(weights.sum(2, keepdims=True), 1)
    return torch.from_numpy(weights)
