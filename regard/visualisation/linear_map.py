"""Picture of a matrix W as a linear map: the keys in a plane of their own space, and the positions
to which W maps them among the queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from regard.visualisation import figure as drawing
from regard.visualisation.figure import (
    MARGIN,
    MIDLINE,
    Box,
    Figure,
    Group,
    Mark,
    Polyline,
    Text,
)
from regard.visualisation.fonts import elide, measure
from regard.visualisation.language import words
from regard.visualisation.screen import screen_width

SIDE = 320.0  # pixels of a plane's side
BETWEEN = 64.0  # pixels between the two planes
SIZE = 13.0  # text size
LINES = 4  # grid lines on each side of the middle
DOT = 4.0  # pixels: half the side of a point
LABEL = 90.0  # pixels of the widest label
CAPTION = (
    "Plane h: the encoder's states, in a plane of their space. Plane W · h: where W ({sizes} "
    "weights) puts them, and the decoder's states as arrows. The further a point lies along an "
    "arrow, the higher its score. The plane W · h holds {share} of the differences between scores; "
    "W maps the plane h onto it."
)
TURNED = (
    "The rest can turn the order round: for {turned} of {count} arrows the highest score of the "
    "model is that of another point."
)
NOT_TURNED = (
    "For all {count} arrows the point that is furthest along the arrow has the highest score of "
    "the model, too."
)


def layout_linear_map(
    matrix: np.ndarray,
    keys: np.ndarray,
    queries: np.ndarray,
    names: tuple[Sequence[str], Sequence[str]],
    title: str,
) -> Figure:
    """Draw W (M, N) by keys (S, N) and queries (T, M), labelled by `names`; a score is query · W ·
    key.

    The right plane is spanned by the two directions in which the mapped keys differ most. The mean
    of the keys is subtracted: it adds the same to all scores of a query, which softmax ignores.
    """
    M, N = matrix.shape
    keys = keys - keys.mean(0)
    query_plane = np.linalg.svd(keys @ matrix.T)[2][:2]
    left, stretch, right = np.linalg.svd(query_plane @ matrix, full_matrices=False)

    # The basis of the left plane makes this map symmetric: the grid is stretched, not rotated.
    plane_map = left * stretch @ left.T
    points = keys @ (left @ right).T
    mapped_points = points @ plane_map
    arrows = queries @ query_plane.T

    scores = queries @ matrix @ keys.T
    plane_scores = arrows @ mapped_points.T
    lost = np.square(scores - plane_scores).sum() / max(1e-12, np.square(scores).sum())
    turned = int((scores.argmax(1) != plane_scores.argmax(1)).sum())
    caption = words(CAPTION, sizes=f"{M} × {N}", share=f"{1 - lost:.0%}")
    order = TURNED if turned else NOT_TURNED
    caption += " " + words(order, turned=turned, count=len(queries))

    narrow = screen_width()
    side = narrow - 2 * MARGIN if narrow else SIDE
    width = narrow or 2 * MARGIN + 2 * SIDE + BETWEEN
    header, header_height = drawing.header_lines(title, caption, width - 2 * MARGIN)
    top = MARGIN + header_height + 34
    first = (MARGIN, top)
    second = (MARGIN + SIDE + BETWEEN, top)
    tail = (MARGIN + SIDE + 8, top + SIDE / 2)
    tip = (MARGIN + SIDE + BETWEEN - 8, top + SIDE / 2)
    name = Text(MARGIN + SIDE + BETWEEN / 2, tail[1] - 12, "W", 18.0, "s1", "middle")
    if narrow:
        second = (MARGIN, top + side + BETWEEN)
        tail = (narrow / 2, top + side + 8)
        tip = (narrow / 2, top + side + BETWEEN - 8)
        name = Text(tail[0] + 16, tail[1] + 30, "W", 18.0, "s1")
    steps = np.eye(2) * np.abs(points).max(initial=1e-9) / LINES
    left_marks = _plane(points, arrows[:0], steps, names, (*first, side))
    right_marks = _plane(
        mapped_points, arrows, steps @ plane_map, names, (*second, side)
    )

    map_marks: tuple[Mark, ...] = (
        Text(first[0], first[1] - 10, "h", SIZE, "muted"),
        Text(second[0], second[1] - 10, "W · h", SIZE, "muted"),
        name,
        *drawing.arrow(tail, tip, "link", 2.0),
    )
    groups = [
        Group("header", header),
        Group("plane-1", tuple(left_marks)),
        Group("plane-2", tuple(right_marks)),
        Group("map", map_marks),
    ]
    height = second[1] + side + MARGIN
    return drawing.make_figure(width, height, groups, title, caption)


def _plane(
    points: np.ndarray,
    arrows: np.ndarray,
    steps: np.ndarray,
    names: tuple[Sequence[str], ...],
    square: tuple[float, float, float],
) -> Iterator[Mark]:
    """Draw a plane in a square, given by its corner and its side: points, arrows, and the grid that
    two `steps` span from the middle.

    Points and grid share one scale; arrows have another, so that the longest one fits.
    """
    left, top, side = square
    grid_corners = np.array([(1, 1), (1, -1)]) @ steps * LINES
    extent = max(
        float(np.abs(points).max(initial=1e-9)),
        float(np.abs(grid_corners).max(initial=1e-9)),
    )
    scale = 0.46 * side / extent

    def at(vector: np.ndarray) -> tuple[float, float]:
        x = left + side / 2 + scale * float(vector[0])
        y = top + side / 2 - scale * float(vector[1])
        return x, y

    yield Box(left, top, side, side, "rule", outline=1.0)
    for n in range(-LINES, LINES + 1):
        for across, along in (steps, steps[::-1]):
            line = at(n * across - LINES * along), at(n * across + LINES * along)
            yield Polyline(line, "grid" if n else "rule", 1.0)

    longest = float(np.abs(arrows).max(initial=1e-9)) / (0.4 * side / scale)
    tips = [at(arrow / longest) for arrow in arrows]
    spots = [at(point) for point in points]
    labels = _labels(names, spots, tips, (left, left + side))

    # The labels lie on paper, which covers the grid but no arrow and no point.
    for label in labels:
        first, second, third, fourth = label.corners()
        yield Polyline((first, second, fourth, third), "paper")
    for tip in tips:
        yield from drawing.arrow(at(np.zeros(2)), tip, "s1", 1.5)
    for x, y in spots:
        yield Box(x - DOT, y - DOT, 2 * DOT, 2 * DOT, "s0")
    yield from labels


def _labels(
    names: tuple[Sequence[str], ...],
    spots: Sequence[tuple[float, float]],
    tips: Sequence[tuple[float, float]],
    edges: tuple[float, float],
) -> list[Text]:
    """Label points and tips of arrows at their right, or at their left if there is more room."""
    left, right = edges
    labels = list[Text]()
    gap = DOT + 4
    for paint, texts, anchors in (("s0", names[0], spots), ("s1", names[1], tips)):
        for name, (x, y) in zip(texts, anchors, strict=False):
            text = elide(name, SIZE, LABEL)
            width = gap + measure(text, SIZE)
            leaves_plane = x + width > right
            points_left = left < x - width < (left + right) / 2 - width
            label = Text(x + gap, y + MIDLINE * SIZE, text, SIZE, paint)
            if leaves_plane or (paint == "s1" and points_left):
                label = replace(label, x=x - gap, anchor="end")
            labels.append(_moved_apart(label, labels))
    return labels


def _moved_apart(label: Text, others: Sequence[Text]) -> Text:
    """Move a label up or down, as little as possible, until it overlaps none of the others."""
    left, right = _span(label)
    neighbours = list[float]()
    for other in others:
        other_left, other_right = _span(other)
        if other_left < right and left < other_right:
            neighbours.append(other.y)

    heights = (
        label.y + sign * n * SIZE / 4
        for n in range(4 * len(others) + 5)
        for sign in (1, -1)
    )
    y = next(
        height
        for height in heights
        if all(abs(height - neighbour) >= SIZE for neighbour in neighbours)
    )
    return replace(label, y=y)


def _span(label: Text) -> tuple[float, float]:
    """Return the left and right edge of a label."""
    xs = [x for x, _ in label.corners()]
    return min(xs), max(xs)
