"""The map of a general score: in its planes a score is what it is in the model, or the caption says
how much is lost.
"""

from itertools import combinations

import numpy as np
import pytest
from drawn import boxes_of, lines_of, marks_of, texts_of

from regard.visualisation.figure import Figure, Polyline, Text
from regard.visualisation.linear_map import SIDE, layout_linear_map
from regard.visualisation.screen import figures_within

NAMES = (("나는", "빵을", "먹고", "(end)"), ("I", "ate", "bread"))


def drawn(M: int, N: int, seed: int = 0) -> tuple[Figure, np.ndarray]:
    """Return the figure of random keys and queries, and their scores from the mean of each row."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(M, N))
    keys = rng.normal(size=(4, N))
    queries = rng.normal(size=(3, M))
    figure = layout_linear_map(matrix, keys, queries, NAMES, "title")
    scores = queries @ matrix @ keys.T

    return figure, scores - scores.mean(1, keepdims=True)


def middle_of(figure: Figure, plane: int) -> np.ndarray:
    (frame,) = (box for box in boxes_of(figure, f"plane-{plane}") if box.outline)
    return np.array([frame.x, frame.y]) + SIDE / 2


def points(figure: Figure, plane: int) -> np.ndarray:
    """Return the points of a plane from its middle, y upwards."""
    boxes = [box for box in boxes_of(figure, f"plane-{plane}") if not box.outline]
    corners = np.array([(box.x, box.y) for box in boxes])
    sizes = np.array([(box.width, box.height) for box in boxes])
    return (corners + sizes / 2 - middle_of(figure, plane)) * (1, -1)


def products(figure: Figure) -> np.ndarray:
    """Return the products of the arrows of the right plane with its points."""
    tips = []
    for line in lines_of(figure, "plane-2"):
        if line.paint == "s1" and not line.width:
            tips.append(line.points[0])

    arrows = (np.array(tips) - middle_of(figure, 2)) * (1, -1)
    return np.asarray(arrows @ points(figure, 2).T)


@pytest.mark.parametrize(("M", "N"), [(2, 5), (5, 2)])
def test_scores_are_products_of_arrows_and_points(M: int, N: int) -> None:
    """With two dimensions on one side nothing is lost; the scales of points and arrows are those of
    the paper.
    """
    figure, scores = drawn(M, N)
    actual = products(figure)
    actual /= np.abs(actual).max()

    np.testing.assert_allclose(actual, scores / np.abs(scores).max(), atol=1e-6)

    assert "100%" in figure.description


@pytest.mark.parametrize("seed", [1, 2])  # an order that is kept, one that is turned
def test_the_caption_says_how_much_the_planes_hold(seed: int) -> None:
    figure, scores = drawn(7, 9, seed)
    actual = products(figure)
    scale = (actual * scores).sum() / np.square(actual).sum()
    lost = np.square(scores - scale * actual).sum() / np.square(scores).sum()

    assert f"{1 - lost:.0%}" in figure.description
    assert "7 × 9 weights" in figure.description

    turned = (actual.argmax(1) != scores.argmax(1)).sum()
    sentence = (
        f"for {turned} of 3 arrows the highest score of the model is that of another"
        if turned
        else "For all 3 arrows the point that is furthest along the arrow has the highest"
    )
    assert sentence in figure.description


@pytest.mark.parametrize("seed", range(2))
def test_a_symmetric_map_leads_from_the_left_plane_to_the_right(seed: int) -> None:
    figure, _ = drawn(6, 8, seed)
    before = points(figure, 1)
    after = points(figure, 2)
    change, *_ = np.linalg.lstsq(before, after, rcond=None)

    np.testing.assert_allclose(before @ change, after, atol=1e-6)
    np.testing.assert_allclose(change, change.T, atol=1e-6)


@pytest.mark.parametrize(("S", "T"), [(1, 1), (40, 40)])
def test_labels_stay_apart_and_on_the_paper(S: int, T: int) -> None:
    rng = np.random.default_rng(S)
    names = [f"word {n}" for n in range(S)], [f"다른 단어 {n}" for n in range(T)]
    matrix = rng.normal(size=(3, 4))
    keys = 0.1 * rng.normal(size=(S, 4))
    queries = rng.normal(size=(T, 3))
    figure = layout_linear_map(matrix, keys, queries, names, "long title " * 20)

    for text in texts_of(figure):
        across = [x for x, _ in text.corners()]
        assert 0 <= min(across) <= max(across) <= figure.width, text

    spans = []
    for text in texts_of(figure, "plane-2"):
        if text.paint in ("s0", "s1"):
            across = [x for x, _ in text.corners()]
            spans.append((min(across), max(across), text.y))

    assert len(spans) >= S

    for (left, right, y), (other_left, other_right, other_y) in combinations(spans, 2):
        is_beside = right <= other_left or other_right <= left
        assert is_beside or abs(y - other_y) >= 12.99


def test_no_line_of_the_grid_strikes_a_label_through() -> None:
    figure, _ = drawn(7, 9)
    for plane in (1, 2):
        places: dict[str, list[int]] = {}
        papers = {}
        for place, mark in enumerate(marks_of(figure, f"plane-{plane}")):
            paint = "" if isinstance(mark, Text) else getattr(mark, "paint", "")
            places.setdefault(paint, []).append(place)
            if isinstance(mark, Polyline) and paint == "paper":
                papers[frozenset(mark.points)] = place

        drawn_first = max(places["grid"] + places["rule"])
        drawn_last = min(places["s0"] + places.get("s1", []))
        for label in texts_of(figure, f"plane-{plane}"):
            paper = papers[frozenset(label.corners())]
            assert drawn_first < paper, "it hides the grid"
            assert paper < drawn_last, "it hides no point and no arrow"


def test_on_a_small_screen_the_planes_stand_below_one_another() -> None:
    with figures_within(366.0):
        figure, _ = drawn(3, 4)
    frames = [
        next(box for box in boxes_of(figure, f"plane-{plane}") if box.outline)
        for plane in (1, 2)
    ]
    first, second = frames
    assert first.y + first.height < second.y
    assert all(box.x > 0 and box.x + box.width < figure.width for box in frames)
    assert figure.width == 366
