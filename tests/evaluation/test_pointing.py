"""The pointing game, on maps and regions small enough to count."""

from __future__ import annotations

import numpy as np
import pytest

from regard.errors import UsageError
from regard.evaluation.pointing import points_at, share_pointed


def test_the_peak_is_looked_up_in_pixels() -> None:
    weights = np.array([[0.1, 0.2], [0.6, 0.1]])  # the lower left quarter of the picture
    region = np.zeros((100, 60), bool)
    assert not points_at(weights, region)
    region[75, 15] = True
    assert points_at(weights, region), "row 1.5 of 2 is pixel 75 of 100, column 0.5 of 2 pixel 15 of 60"
    other = np.zeros((100, 60), bool)
    other[:50] = True
    assert share_pointed([weights, weights], [region, other]) == 0.5
    assert share_pointed([], []) == 0


def test_what_is_no_map_is_refused() -> None:
    with pytest.raises(UsageError, match=r"wanted weights \(rows, columns\)"):
        points_at(np.zeros(3), np.zeros((2, 2), bool))
    with pytest.raises(UsageError, match=r"got shapes \(1, 0\)"):
        points_at(np.zeros((1, 0)), np.zeros((2, 2), bool))
