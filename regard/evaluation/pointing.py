"""The pointing game for pictures: does attention peak on the thing that the word names? (Zhang et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.errors import UsageError

__all__ = ["Pointing", "pointing_game", "points_at", "share_pointed"]

Map = npt.NDArray[np.floating]
Region = npt.NDArray[np.bool_]


def points_at(
    weights: Map, region: Region, cell_centre: float = 0.5, cell_extent: tuple[float, float] = (1.0, 1.0)
) -> bool:
    """Whether the middle of the strongest cell of a map (rows, columns) lies in a region (Y, X) of a picture.

    The map's cells lie evenly over the picture, whatever the sizes of both; `middle` is where in its square a cell
    looks, in shares of a side, `reach` what the cells come to together, in shares of the picture.
    """
    if weights.ndim != 2 or region.ndim != 2 or 0 in (*weights.shape, *region.shape):
        raise UsageError(
            f"wanted weights (rows, columns) and a region (Y, X), got shapes {weights.shape} and {region.shape}"
        )
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    (rows, columns), (Y, X) = weights.shape, region.shape
    y, x = (row + cell_centre) / rows * cell_extent[0] * Y, (column + cell_centre) / columns * cell_extent[1] * X
    return bool(region[min(int(y), Y - 1), min(int(x), X - 1)])


def share_pointed(
    maps: Iterable[Map],
    regions: Iterable[Region],
    cell_centre: float = 0.5,
    cell_extent: tuple[float, float] = (1.0, 1.0),
) -> float:
    """The share of maps that point at their region."""
    hits = [points_at(weights, region, cell_centre, cell_extent) for weights, region in zip(maps, regions, strict=True)]
    return sum(hits) / max(len(hits), 1)


@dataclass(frozen=True)
class Pointing:
    """A game of pointing, and what it would have come to without looking."""

    words: int
    share: float  # of words whose map peaks in their region
    chance: float  # of pixels that lie in a region, in the mean: what a map would hit that peaks anywhere
    centre: float  # of regions that hold the middle of the picture: what a map would hit that always peaks there

    def __str__(self) -> str:
        told = f"chance {100 * self.chance:.1f} %, middle of the picture {100 * self.centre:.1f} %"
        return f"{100 * self.share:.1f} % of {self.words:,} words ({told})"


def pointing_game(
    maps: Iterable[Map],
    regions: Iterable[Region],
    cell_centre: float = 0.5,
    cell_extent: tuple[float, float] = (1.0, 1.0),
) -> Pointing:
    """The pointing game with its two baselines: a map (rows, columns) and a region (Y, X) for each word.

    `middle`, `reach`: as of `points_at`.
    """
    own = list(regions)
    whole = np.ones((1, 1))  # a map of a single cell peaks in the middle
    chance = float(np.mean([region.mean() for region in own])) if own else 0.0
    return Pointing(
        len(own), share_pointed(maps, own, cell_centre, cell_extent), chance, share_pointed([whole] * len(own), own)
    )
