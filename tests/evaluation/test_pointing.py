"""The pointing game, on maps and regions small enough to count."""

from __future__ import annotations

import numpy as np
import pytest

from regard.common.errors import UsageError
from regard.evaluation.pointing import (
    Pointing,
    pointing_accuracy,
    pointing_game,
    points_at,
)


def test_the_peak_is_converted_to_pixels() -> None:
    weights = np.array([[0.1, 0.2], [0.6, 0.1]])  # the lower left quarter of the image
    region = np.zeros((100, 60), bool)
    assert not points_at(weights, region)

    # Row 1.5 of 2 is pixel 75 of 100, column 0.5 of 2 pixel 15 of 60.
    region[75, 15] = True
    assert points_at(weights, region)

    # If centres of cells lie near their upper left corner, row 1.1 is pixel 55, column 0.1 pixel 3.
    assert not points_at(weights, region, 0.1)

    region[55, 3] = True
    assert points_at(weights, region, 0.1)

    upper_half = np.zeros((100, 60), bool)
    upper_half[:50] = True
    assert pointing_accuracy([weights, weights], [region, upper_half]) == 0.5
    assert pointing_accuracy([], []) == 0


def test_the_last_cells_may_hang_over_the_edge() -> None:
    # Of 32 pixels each, over 100: they begin at 0, 32, 64 and 96.
    weights = np.array([[0.1], [0.2], [0.1], [0.6]])
    region = np.zeros((100, 32), bool)
    region[96:] = True
    extent = (1.28, 1.0)

    assert points_at(weights, region, 0.5 / 32, extent)
    assert not points_at(weights, region, 0.5 / 32)
    assert points_at(weights, region, 0.5, extent), "beyond it the last pixel counts"


def test_arrays_that_are_no_maps_are_refused() -> None:
    with pytest.raises(UsageError, match=r"wanted weights \(rows, columns\)"):
        points_at(np.zeros(3), np.zeros((2, 2), bool))
    with pytest.raises(UsageError, match=r"got shapes \(1, 0\)"):
        points_at(np.zeros((1, 0)), np.zeros((2, 2), bool))


def test_the_game_has_baselines_that_ignore_the_image() -> None:
    corner = np.zeros((40, 40), bool)
    centre = np.zeros((40, 40), bool)
    corner[:10, :20] = True  # an eighth of the image
    centre[15:25, 15:25] = True  # a sixteenth
    attention = np.array([[0.7, 0.1], [0.1, 0.1]])  # peaks at pixel 10, 10
    game = pointing_game([attention, attention], [corner, centre])

    assert game == Pointing(2, 0.0, 3 / 32, 0.5)

    corner[:11] = True
    assert pointing_game([attention, attention], [corner, centre]).accuracy == 0.5
    assert str(game) == "0.0 % of 2 words (chance 9.4 %, centre of the image 50.0 %)"
    assert pointing_game([], []) == Pointing(0, 0.0, 0.0, 0.0)
