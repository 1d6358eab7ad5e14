"""The pointing game for pictures: does attention peak on the thing that the word names? (Zhang et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from regard.errors import UsageError

__all__ = ["points_at", "share_pointed"]

Map = npt.NDArray[np.floating]
Region = npt.NDArray[np.bool_]


def points_at(weights: Map, region: Region) -> bool:
    """Whether the middle of the strongest cell of a map (rows, columns) lies in a region (Y, X) of a picture.

    The map's cells lie evenly over the picture, whatever the sizes of both.
    """
    if weights.ndim != 2 or region.ndim != 2 or 0 in (*weights.shape, *region.shape):
        raise UsageError(
            f"wanted weights (rows, columns) and a region (Y, X), got shapes {weights.shape} and {region.shape}"
        )
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    (rows, columns), (Y, X) = weights.shape, region.shape
    return bool(region[int((row + 0.5) / rows * Y), int((column + 0.5) / columns * X)])


def share_pointed(maps: Iterable[Map], regions: Iterable[Region]) -> float:
    """The share of maps that point at their region."""
    hits = [points_at(weights, region) for weights, region in zip(maps, regions, strict=True)]
    return sum(hits) / max(len(hits), 1)
