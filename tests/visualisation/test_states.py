"""States of a recurrent encoder: which places each direction has read."""

from __future__ import annotations

import numpy as np
import pytest

from regard.visualisation.states import States


@pytest.mark.parametrize(("directions", "read"), [(1, [range(2)]), (2, [range(2), range(1, 3)])])
def test_each_direction_reads_from_its_own_end(directions: int, read: list[range]) -> None:
    encoder, handed_over = np.zeros((3, directions, 4)), np.zeros((directions, 4))
    states = States(("a", "b", "c"), encoder, handed_over, np.zeros((2, 4)), True)
    assert states.read_until(2) == read
