"""Picture of a matrix W as a map between two spaces: keys in a plane of theirs, and where W puts
them among queries.
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

SIDE, BETWEEN, SIZE = 400.0, 64.0, 13.0  # pixels: of a plane, between both, of texts
# Grid lines on each side of the middle; half a point's side; the widest label.
LINES, DOT, LABEL = (
    4,
    4.0,
    90.0,
)
CAPTION = (
    "Left: the encoder's states h, in a plane of their space. Right: where W ({sizes} weights) "
    "puts them, and the decoder's states as arrows. The further a point lies along an arrow, the "
    "higher its score. The right plane holds {share} of the differences between scores; W maps the "
    "left plane onto it. The rest can turn the order round: for {turned} of {count} arrows the "
    "highest score of the model is that of another point."
)


def layout_linear_map(
    matrix: np.ndarray,
    keys: np.ndarray,
    queries: np.ndarray,
    names: tuple[Sequence[str], Sequence[str]],
    title: str,
) -> Figure:
    """Draw W (M, N) by keys (S, N) and queries (T, M), which `names` label; a score is query · W ·
    key.

    In the two directions of the right plane the mapped keys differ most. Keys are drawn from their
    mean: it adds the same to all scores of a query, which softmax does not see.
    """
    keys, (M, N) = keys - keys.mean(0), matrix.shape
    base = np.linalg.svd(keys @ matrix.T)[2][:2]
    turn, stretch, across = np.linalg.svd(base @ matrix, full_matrices=False)
    # Symmetric, of the left plane turn @ across: the grid is stretched, not turned.
    change = turn * stretch @ turn.T
    before = keys @ (turn @ across).T
    arrows = queries @ base.T
    scores = queries @ matrix @ keys.T
    planar = arrows @ (before @ change).T
    share = f"{1 - np.square(scores - planar).sum() / max(1e-12, np.square(scores).sum()):.0%}"
    turned = int((scores.argmax(1) != planar.argmax(1)).sum())
    caption = words(
        CAPTION, sizes=f"{M} × {N}", share=share, turned=turned, count=len(queries)
    )
    width = 2 * MARGIN + 2 * SIDE + BETWEEN
    header, height = drawing.header_lines(title, caption, width - 2 * MARGIN)
    top = MARGIN + height + 34
    groups = [Group("header", header)]
    link = list[Mark]()
    steps = np.eye(2) * np.abs(before).max(initial=1e-9) / LINES
    for n, (name, points, grid) in enumerate(
        (("h", before, steps), ("W · h", before @ change, steps @ change))
    ):
        left = MARGIN + n * (SIDE + BETWEEN)
        shown = arrows[: n * len(arrows)]
        link.append(Text(left, top - 10, name, SIZE, "muted"))
        groups.append(
            Group(
                f"plane-{n + 1}", tuple(_plane(points, shown, grid, names, (left, top)))
            )
        )
    x = MARGIN + SIDE + BETWEEN / 2
    y = top + SIDE / 2
    link += [
        Text(x, y - 12, "W", 18.0, "link", "middle"),
        *drawing.arrow((x - 24, y), (x + 24, y), "link", 2.0),
    ]
    return drawing.make_figure(
        width, top + SIDE + MARGIN, [*groups, Group("map", tuple(link))], title, caption
    )


def _plane(
    points: np.ndarray,
    arrows: np.ndarray,
    steps: np.ndarray,
    names: tuple[Sequence[str], ...],
    corner: Sequence[float],
) -> Iterator[Mark]:
    """Draw points, arrows at a scale of their own, and the grid of two `steps`, all from the middle
    of a square.
    """
    (left, top), ends = corner, np.array([(1, 1), (1, -1)]) @ steps * LINES
    scale = (
        0.46
        * SIDE
        / max(float(np.abs(part).max(initial=1e-9)) for part in (points, ends))
    )

    def at(vector: np.ndarray) -> tuple[float, float]:
        return left + SIDE / 2 + scale * float(
            vector[0]
        ), top + SIDE / 2 - scale * float(vector[1])

    yield Box(left, top, SIDE, SIDE, "rule", outline=1.0)
    for n in range(-LINES, LINES + 1):
        for one, other in (steps, steps[::-1]):
            line = at(n * one - LINES * other), at(n * one + LINES * other)
            yield Polyline(line, "grid" if n else "rule", 1.0)
    longest = float(np.abs(arrows).max(initial=1e-9)) / (0.4 * SIDE / scale)
    tips = [at(arrow / longest) for arrow in arrows]
    spots = [at(point) for point in points]
    labels = list[Text]()
    for paint, texts, ends_of in (("s0", names[0], spots), ("s1", names[1], tips)):
        for name, (x, y) in zip(texts, ends_of, strict=False):
            text = elide(name, SIZE, LABEL)
            far = DOT + 4
            wide = far + measure(text, SIZE)
            is_left = x + wide > left + SIDE or (
                paint == "s1" and left < x - wide < left + SIDE / 2 - wide
            )
            label = Text(x + far, y + MIDLINE * SIZE, text, SIZE, paint)
            labels.append(
                _apart(
                    replace(label, x=x - far, anchor="end") if is_left else label,
                    labels,
                )
            )
    # Over the grid alone.
    yield from (
        Polyline((a, b, d, c), "paper") for a, b, c, d in map(Text.corners, labels)
    )
    for tip in tips:
        yield from drawing.arrow(at(np.zeros(2)), tip, "s1", 1.5)
    yield from (Box(x - DOT, y - DOT, 2 * DOT, 2 * DOT, "s0") for x, y in spots)
    yield from labels


def _apart(label: Text, others: Sequence[Text]) -> Text:
    """Move a label up or down by as little as keeps it off the others."""
    spans = [[x for x, _ in each.corners()] for each in (label, *others)]
    low = min(spans[0])
    high = max(spans[0])
    near = [
        each.y
        for each, xs in zip(others, spans[1:], strict=True)
        if min(xs) < high and low < max(xs)
    ]
    heights = (
        label.y + sign * n * SIZE / 4
        for n in range(4 * len(others) + 5)
        for sign in (1, -1)
    )
    return replace(
        label,
        y=next(y for y in heights if all(abs(y - other) >= SIZE for other in near)),
    )
