"""Arcs of all heads of one word."""

import numpy as np
import pytest

from regard.common.errors import UsageError
from regard.visualisation.figure import Box, Polyline, Text
from regard.visualisation.head_arcs import HeadArcs, layout_head_arcs

WORDS = ("making", "the", "process", "more", "difficult")


def arcs(heads: int, words: tuple[str, ...] = WORDS) -> HeadArcs:
    weights = np.random.default_rng(1).dirichlet(np.ones(len(words)) / 2, heads)
    return HeadArcs(words, words, 0, weights, tuple(range(1, heads + 1)), "making")


@pytest.mark.parametrize("heads", [1, 4, 8])
def test_every_weight_is_drawn_in_the_colour_of_its_head(heads: int) -> None:
    drawn = arcs(heads)
    figure = layout_head_arcs(drawn)
    groups = {group.name: group.marks for group in figure.groups}
    lines = {mark.hint: mark for mark in groups["arcs"] if isinstance(mark, Polyline)}
    assert len(lines) == (drawn.weights >= 0.02).sum()
    for (head, key), weight in np.ndenumerate(drawn.weights):
        hint = f"head {head + 1}: making → {WORDS[key]} {weight:.3f}"
        assert (hint in lines) == (weight >= 0.02)
        if weight >= 0.02:
            assert lines[hint].paint == f"s{head}"
            assert lines[hint].width == pytest.approx(0.6 + 5.4 * weight)
    filled = [mark for mark in groups["squares"] if isinstance(mark, Box) and not mark.outline]
    assert len(filled) == len(lines)
    numbers = {
        (mark.paint, mark.text)
        for mark in groups["words"]
        if isinstance(mark, Text) and mark.paint[0] == "s"
    }
    assert numbers == {(f"s{head}", f"{row.max():.2f}") for head, row in enumerate(drawn.weights)}
    for mark in figure.marks():
        if isinstance(mark, Text):
            assert all(
                0 <= x <= figure.width and 0 <= y <= figure.height for x, y in mark.corners()
            ), mark


def test_what_cannot_be_drawn_is_refused_with_all_causes() -> None:
    with pytest.raises(
        UsageError, match="colours for 8 heads, got 9: choose some of them with --head"
    ):
        arcs(9)
    with pytest.raises(UsageError, match="at most 60 words, got 61"):
        arcs(2, ("word",) * 61)
    with pytest.raises(UsageError, match="wanted weights of 2 heads and 5 words"):
        HeadArcs(WORDS, WORDS, 0, np.ones((2, 4)), (1, 2))
