"""Pointing game: whether attention over an image peaks on the object that a word names (Zhang et
al. 2016).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.common.errors import UsageError

Map = npt.NDArray[np.floating]
Region = npt.NDArray[np.bool_]


def points_at(
    weights: Map,
    region: Region,
    cell_centre: float = 0.5,
    cell_extent: tuple[float, float] = (1.0, 1.0),
) -> bool:
    """Return whether the largest cell of a map (rows, columns) has its centre in a region (Y, X).

    `cell_centre`: the point that a cell stands for, as a share of its side. `cell_extent`: height
    and width of all cells together, as shares of the image.
    """
    if weights.ndim != 2 or region.ndim != 2 or 0 in (*weights.shape, *region.shape):
        raise UsageError(
            f"wanted weights (rows, columns) and a region (Y, X), got shapes {weights.shape} and "
            f"{region.shape}"
        )
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    rows, columns = weights.shape
    Y, X = region.shape
    y = (row + cell_centre) / rows * cell_extent[0] * Y
    x = (column + cell_centre) / columns * cell_extent[1] * X
    return bool(region[min(int(y), Y - 1), min(int(x), X - 1)])


def pointing_accuracy(
    maps: Iterable[Map],
    regions: Iterable[Region],
    cell_centre: float = 0.5,
    cell_extent: tuple[float, float] = (1.0, 1.0),
) -> float:
    """Return the share of maps that peak in their region."""
    hits = [
        points_at(weights, region, cell_centre, cell_extent)
        for weights, region in zip(maps, regions, strict=True)
    ]
    return sum(hits) / max(len(hits), 1)


@dataclass(frozen=True)
class Pointing:
    """Accuracy of a pointing game, with the accuracy of two baselines that ignore the image."""

    words: int
    # Share of words whose map peaks in their region.
    accuracy: float
    # Mean share of pixels in a region, which is the accuracy of random peaks.
    chance: float
    # Share of regions that contain the centre of the image, which is the accuracy of peaks there.
    centre: float

    def __str__(self) -> str:
        baselines = (
            f"chance {100 * self.chance:.1f} %, "
            f"centre of the image {100 * self.centre:.1f} %"
        )
        return f"{100 * self.accuracy:.1f} % of {self.words:,} words ({baselines})"


def pointing_game(
    maps: Iterable[Map],
    regions: Iterable[Region],
    cell_centre: float = 0.5,
    cell_extent: tuple[float, float] = (1.0, 1.0),
) -> Pointing:
    """Play the pointing game with a map (rows, columns) and a region (Y, X) for each word, and with
    two baselines.

    `cell_centre` and `cell_extent` are explained at `points_at`.
    """
    regions = list(regions)
    accuracy = pointing_accuracy(maps, regions, cell_centre, cell_extent)
    chance = float(np.mean([region.mean() for region in regions])) if regions else 0.0
    single_cell = np.ones((1, 1))  # peaks in the centre of the image
    return Pointing(
        len(regions),
        accuracy,
        chance,
        pointing_accuracy([single_cell] * len(regions), regions),
    )
