"""Figures of positional encodings: waves and map of sinusoids; learned position embeddings and
their similarities.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.visualisation.charts import Chart, Panel, Series, layout_chart
from regard.visualisation.colours import signed_paint
from regard.visualisation.figure import (
    MARGIN,
    MIDLINE,
    TITLE_SIZE,
    Box,
    Figure,
    Group,
    Mark,
    Text,
    make_figure,
)
from regard.visualisation.fonts import measure
from regard.visualisation.language import words

ABOUT = "embeddings of {T} positions in {D} dimensions, and their cosine similarities."
# Pixels for the numbers of the rows, between two matrices; text size.
LEFT, GAP, SIZE = (
    62.0,
    54.0,
    12.0,
)


def layout_sinusoids(
    encoding: np.ndarray, title: str = "Positional encoding"
) -> Figure:
    """Draw sinusoidal encodings (T, D): waves of four dimensions at the left, the map of all at the
    right.

    The map has positions as rows and dimensions as columns, from −1 over 0 (the colour of the
    paper) to 1. The waves are two of sine and cosine, of short and of longer wavelength: one alone
    repeats itself, all together do not.
    """
    T, D = encoding.shape
    waves = layout_chart(_waves(encoding, title))
    left = waves.width + GAP - MARGIN
    marks, width, height = _matrix(encoding, "dimension", 1.0, left, MARGIN + 56)
    text = (
        "Sinusoids over {T} positions in {D} dimensions; wavelengths grow from the first dimension "
        "on."
    )
    groups = [*waves.groups[1:], Group("sinusoids", marks)]
    return make_figure(
        float(width + MARGIN),
        float(max(height, waves.height)),
        groups,
        title,
        words(text, T=T, D=D),
    )


def shown_dimensions(size: int) -> list[int]:
    """Return the dimensions whose waves are drawn: sine and cosine at a fifth and at three tenths
    of the size.
    """
    starts = {2 * (size // 10), max(2 * (3 * size // 20), 2 * (size // 10) + 2)}
    return [d for start in sorted(starts) for d in (start, start + 1) if d < size]


def _waves(encoding: np.ndarray, title: str) -> Chart:
    names = ("sine", "cosine")
    series = list[Series]()
    for n, d in enumerate(shown_dimensions(encoding.shape[1])):
        points = tuple((float(t), float(y)) for t, y in enumerate(encoding[:, d]))
        series.append(
            Series(words("dimension {d}, " + names[d % 2], d=d), points, paint=n)
        )
    pairs = {"value, short waves": series[:2], "value, longer waves": series[2:]}
    x = words("position")
    return Chart(
        title,
        tuple(
            Panel(words(name), x, tuple(pair)) for name, pair in pairs.items() if pair
        ),
    )


def layout_learned_positions(
    embeddings: Sequence[tuple[str, np.ndarray]],
    title: str = "Learned position embeddings",
) -> Figure:
    """Draw each side's learned position embeddings (left) beside the cosine similarity of every
    pair of positions.

    The similarities show what was learned of distance and order, whatever the dimensions mean.
    """
    texts = [Text(MARGIN, MARGIN + 14, title, TITLE_SIZE)]
    groups = []
    top = MARGIN + 40
    width = 0.0
    descriptions = []
    for name, vectors in embeddings:
        T, D = vectors.shape
        about = words("{T} positions in {D} dimensions", T=T, D=D)
        texts.append(Text(MARGIN, top + 12, f"{words(name)}: {about}", 13.0))
        largest = float(np.abs(vectors).max()) or 1.0
        left, right, bottom = _matrix(vectors, "dimension", largest, MARGIN, top + 52)
        norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        cosines = (vectors / norms) @ (vectors / norms).T
        similarity, end, _ = _matrix(
            cosines, "position; shade: cosine similarity", 1.0, right + GAP, top + 52
        )
        groups.append(Group(name, (*left, *similarity)))
        descriptions.append(f"{words(name)}: {words(ABOUT, T=T, D=D)}")
        top = bottom + 20
        width = max(width, end)
    right = max(width, *(text.x + measure(text.text, text.size) for text in texts))
    groups.append(Group("texts", tuple(texts)))
    return make_figure(right + MARGIN, top, groups, title, " ".join(descriptions))


def _matrix(
    values: np.ndarray, x_label: str, largest: float, x: float, top: float
) -> tuple[tuple[Mark, ...], float, float]:
    """Draw a matrix (T, D) from −largest over 0 (paper) to largest; return it with its right and
    bottom edges.
    """
    T, D = values.shape
    cell_width = max(1.0, min(8.0, 560.0 // D))
    cell_height = max(2.0, min(10.0, 400.0 // T))
    left = x + LEFT
    foot = top + T * cell_height + 20
    end = f"{largest:.3g}"
    marks: list[Mark] = [
        Box(
            left + first * cell_width,
            top + t * cell_height,
            count * cell_width,
            cell_height,
            paint,
        )
        for t in range(T)
        for first, count, paint in _runs(
            [signed_paint(float(value) / largest) for value in values[t]]
        )
    ]
    places = ((left, top - 22, f"{words(x_label)} →"), (x, top - 6, words("position")))
    marks += [Text(*place, SIZE, "muted") for place in places]
    rows = [(t, top + (t + 0.5) * cell_height + MIDLINE * SIZE) for t in _ticks(T)]
    marks += [Text(left - 8, y, str(t), SIZE, "muted", "end") for t, y in rows]
    marks += [
        Text(left + (d + 0.5) * cell_width, top - 6, str(d), SIZE, "muted", "middle")
        for d in _ticks(D)
    ]
    scale = left + 12 + measure(f"−{end}", SIZE)
    marks += [
        Text(left, foot + 10, f"−{end}", SIZE, "muted"),
        Text(scale + 212, foot + 10, end, SIZE, "muted"),
    ]
    marks += [
        Box(scale + 2 * n, foot, 2.0, 12.0, signed_paint(n / 50 - 1))
        for n in range(101)
    ]
    marks.append(
        Box(
            left - 1,
            top - 1,
            D * cell_width + 2,
            T * cell_height + 2,
            "rule",
            outline=1.0,
        )
    )
    return (
        tuple(marks),
        max(left + D * cell_width, scale + 212 + measure(end, SIZE)),
        top + T * cell_height + 48,
    )


def _runs(paints: Sequence[str]) -> list[tuple[int, int, str]]:
    """Merge equal neighbours: (first column, number of columns, paint) of each run."""
    starts = [d for d in range(len(paints)) if d == 0 or paints[d] != paints[d - 1]]
    return [
        (d, end - d, paints[d])
        for d, end in zip(starts, [*starts[1:], len(paints)], strict=True)
    ]


def _ticks(count: int) -> range:
    return range(
        0,
        count,
        next((step for step in (1, 2, 5, 10, 20, 50, 100) if count / step <= 8), count),
    )
