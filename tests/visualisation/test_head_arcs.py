"""Arcs of all heads of one word."""

import numpy as np
import pytest
from drawn import assert_inside, boxes_of, lines_of, texts_of

from regard.common.errors import UsageError
from regard.visualisation.head_arcs import HeadArcs, layout_head_arcs
from regard.visualisation.screen import figures_within

WORDS = ("making", "the", "process", "more", "difficult")


def arcs(heads: int, words: tuple[str, ...] = WORDS) -> HeadArcs:
    weights = np.random.default_rng(1).dirichlet(np.ones(len(words)) / 2, heads)
    return HeadArcs(words, words, 0, weights, tuple(range(1, heads + 1)), "making")


@pytest.mark.parametrize("heads", [1, 8])
def test_every_weight_is_drawn_in_the_colour_of_its_head(heads: int) -> None:
    drawn = arcs(heads)
    figure = layout_head_arcs(drawn)
    lines = {line.hint: line for line in lines_of(figure, "arcs")}

    assert len(lines) == (drawn.weights >= 0.02).sum()

    for (head, key), weight in np.ndenumerate(drawn.weights):
        hint = f"head {head + 1}: making → {WORDS[key]} {weight:.3f}"
        assert (hint in lines) == (weight >= 0.02)

        if weight >= 0.02:
            assert lines[hint].paint == f"s{head}"
            assert lines[hint].width == pytest.approx(0.6 + 5.4 * weight)

    filled = [box for box in boxes_of(figure, "squares") if not box.outline]
    assert len(filled) == len(lines)

    numbers = [text for text in texts_of(figure, "words") if text.paint[0] == "s"]
    expected = {
        (f"s{head}", f"{row.max():.2f}") for head, row in enumerate(drawn.weights)
    }

    assert {(text.paint, text.text) for text in numbers} == expected

    assert_inside(figure)


def test_arcs_of_two_heads_fit_a_phone() -> None:
    with figures_within(366.0):
        figure = layout_head_arcs(arcs(2, ("나는", "빵을", "먹고", "있었다")))
    assert figure.width <= 366
    assert_inside(figure)


def test_what_cannot_be_drawn_is_refused_with_all_causes() -> None:
    with pytest.raises(
        UsageError, match="colours for 8 heads, got 9: choose some of them with `head=`"
    ):
        arcs(9)

    with pytest.raises(UsageError, match="at most 60 words, got 61"):
        arcs(2, ("word",) * 61)
    with pytest.raises(UsageError, match="wanted weights of 2 heads and 5 words"):
        HeadArcs(WORDS, WORDS, 0, np.ones((2, 4)), (1, 2))
