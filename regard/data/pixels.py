"""Pictures as tensors: those of a batch side by side, whatever their sizes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.shapes import Bool, Float, Tensor

__all__ = ["pad_images"]


def pad_images(
    pictures: Sequence[Float[Tensor, "C _ _"]],
) -> tuple[Float[Tensor, "B C Y X"], Bool[Tensor, "B _"] | None]:
    """Pictures (C, Y, X) of any sizes, filled up with zeros at the right and the bottom, and which pixels are real.

    What is real is said row by row, (B, Y·X); None: everything.
    """
    assert pictures, "a batch holds at least one picture"
    Y, X = (max(picture.shape[side] for picture in pictures) for side in (1, 2))
    if all(picture.shape[1:] == (Y, X) for picture in pictures):
        return torch.stack(list(pictures)), None
    pixels = pictures[0].new_zeros(len(pictures), pictures[0].shape[0], Y, X)
    keep = torch.zeros(len(pictures), Y, X, dtype=torch.bool, device=pixels.device)
    for row, picture in enumerate(pictures):
        _, height, width = picture.shape
        pixels[row, :, :height, :width] = picture
        keep[row, :height, :width] = True
    return pixels, keep.flatten(1)
