"""The map of a general score: in its planes a score is what it is in the model, or the caption says
how much is lost.
"""

import numpy as np
import pytest

from regard.visualisation.figure import Box, Figure, Polyline, Text
from regard.visualisation.linear_map import SIDE, layout_linear_map

NAMES = (("나는", "빵을", "먹고", "(end)"), ("I", "ate", "bread"))


def drawn(M: int, N: int, seed: int = 0) -> tuple[Figure, np.ndarray]:
    """Return the figure of random keys and queries, and their scores from the mean of each row."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(M, N))
    keys = rng.normal(size=(4, N))
    queries = rng.normal(size=(3, M))
    scores = queries @ matrix @ keys.T
    return layout_linear_map(matrix, keys, queries, NAMES, "title"), scores - scores.mean(
        1, keepdims=True
    )


def points(figure: Figure, plane: int) -> np.ndarray:
    """Return the points of a plane from its middle, y upwards."""
    boxes = [mark for mark in marks(figure, plane) if isinstance(mark, Box)]
    (frame,) = (box for box in boxes if box.outline)
    middle = np.array([frame.x, frame.y]) + SIDE / 2
    return (
        np.array([(b.x + b.width / 2, b.y + b.height / 2) for b in boxes if not b.outline]) - middle
    ) * (1, -1)


def marks(figure: Figure, plane: int) -> tuple:
    return next(group.marks for group in figure.groups if group.name == f"plane-{plane}")


def tips(figure: Figure) -> np.ndarray:
    """Return the tips of the arrows of the right plane from its middle, y upwards."""
    heads = [
        m.points[0]
        for m in marks(figure, 2)
        if isinstance(m, Polyline) and m.paint == "s1" and not m.width
    ]
    (frame,) = (mark for mark in marks(figure, 2) if isinstance(mark, Box) and mark.outline)
    return (np.array(heads) - (frame.x + SIDE / 2, frame.y + SIDE / 2)) * (1, -1)


@pytest.mark.parametrize(("M", "N"), [(2, 5), (2, 2), (5, 2)])
def test_scores_are_products_of_arrows_and_points(M: int, N: int) -> None:
    """With two dimensions on one side nothing is lost; the scales of points and arrows are those of
    the paper.
    """
    figure, scores = drawn(M, N)
    products = tips(figure) @ points(figure, 2).T
    np.testing.assert_allclose(
        products / np.abs(products).max(), scores / np.abs(scores).max(), atol=1e-6
    )
    assert "100%" in figure.description


def test_the_caption_says_how_much_the_planes_hold() -> None:
    figure, scores = drawn(7, 9)
    products = tips(figure) @ points(figure, 2).T
    scale = (products * scores).sum() / np.square(products).sum()
    lost = np.square(scores - scale * products).sum() / np.square(scores).sum()
    assert f"{1 - lost:.0%}" in figure.description
    assert "7 × 9 weights" in figure.description


@pytest.mark.parametrize("seed", range(4))
def test_the_caption_counts_the_arrows_whose_highest_score_is_elsewhere(seed: int) -> None:
    figure, scores = drawn(7, 9, seed)
    products = tips(figure) @ points(figure, 2).T
    turned = (products.argmax(1) != scores.argmax(1)).sum()
    assert (
        f"for {turned} of 3 arrows the highest score of the model is that of another point"
        in figure.description
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_symmetric_map_leads_from_the_left_plane_to_the_right(seed: int) -> None:
    figure, _ = drawn(6, 8, seed)
    before = points(figure, 1)
    after = points(figure, 2)
    change, *_ = np.linalg.lstsq(before, after, rcond=None)
    np.testing.assert_allclose(before @ change, after, atol=1e-6)
    np.testing.assert_allclose(change, change.T, atol=1e-6)


@pytest.mark.parametrize(("S", "T"), [(1, 1), (2, 12), (40, 40)])
def test_labels_stay_apart_and_on_the_paper(S: int, T: int) -> None:
    rng = np.random.default_rng(S)
    names = [f"word {n}" for n in range(S)], [f"다른 단어 {n}" for n in range(T)]
    keys = 0.1 * rng.normal(size=(S, 4))
    queries = rng.normal(size=(T, 3))
    figure = layout_linear_map(rng.normal(size=(3, 4)), keys, queries, names, "long title " * 20)
    for text in (mark for mark in figure.marks() if isinstance(mark, Text)):
        assert all(0 <= x <= figure.width for x, _ in text.corners()), text
    labels = [
        mark for mark in marks(figure, 2) if isinstance(mark, Text) and mark.paint in ("s0", "s1")
    ]
    spans = [
        (min(x for x, _ in each.corners()), max(x for x, _ in each.corners()), each.y)
        for each in labels
    ]
    for n, (left, right, y) in enumerate(spans):
        for other_left, other_right, other in spans[:n]:
            assert right <= other_left or other_right <= left or abs(y - other) >= 12.99


def test_no_line_of_the_grid_strikes_a_label_through() -> None:
    figure, _ = drawn(7, 9)
    for plane in (1, 2):
        drawing = marks(figure, plane)
        for label in (mark for mark in drawing if isinstance(mark, Text)):
            paper = [
                m for m in drawing if isinstance(m, Polyline) and {*m.points} == {*label.corners()}
            ]
            assert [mark.paint for mark in paper] == ["paper"]
            grid = [
                n
                for n, m in enumerate(drawing)
                if isinstance(m, Polyline) and m.paint in ("grid", "rule")
            ]
            arrows = [
                n
                for n, m in enumerate(drawing)
                if m.paint in ("s0", "s1") and not isinstance(m, Text)
            ]
            assert max(grid) < drawing.index(paper[0]) < min(arrows), (
                "it hides the grid, and neither point nor arrow"
            )
