"""Figures of positional encodings: waves and matrix of the sinusoidal encoding; learned position
embeddings and their cosine similarities.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

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
LEFT = 62.0  # pixels for the row numbers of a matrix
GAP = 54.0  # pixels between two matrices
SIZE = 12.0  # text size


def layout_sinusoids(
    encoding: np.ndarray,
    title: str = "Positional encoding",
    marked: int | None = None,
    width: float = 0.0,
    between: int = 1,
) -> Figure:
    """Draw sinusoidal encodings (T, D): the waves of four dimensions, and beside them the whole
    matrix; if a width is given, below them.

    The matrix has positions as rows and dimensions as columns, coloured from −1 over 0 (the paper)
    to 1. The waves are a sine and a cosine of a short wavelength and of a longer one: a single wave
    repeats itself, but all dimensions together identify a position. A `marked` position has a line
    through the waves, its values beside them, and a frame in the matrix. If `between` is not 1,
    `encoding` has so many rows for each position, of which the matrix shows the first; the waves
    are smooth, with dots at positions.
    """
    waves = layout_chart(_waves(encoding, title, marked, between), width)
    encoding = encoding[::between]
    T, D = encoding.shape
    left = waves.width + GAP - MARGIN
    top = MARGIN + 56
    if width:
        left = MARGIN
        top += waves.height
    marks, right, height = _matrix(encoding, "dimension", 1.0, left, top, marked)
    text = (
        "Sinusoids over {T} positions in {D} dimensions; wavelengths grow from the first dimension "
        "on."
    )
    return make_figure(
        float(max(right + MARGIN, width)),
        float(max(height, waves.height)),
        [*waves.groups[1:], Group("sinusoids", marks)],
        title,
        words(text, T=T, D=D),
    )


def shown_dimensions(size: int) -> list[int]:
    """Return the dimensions whose waves are drawn: a sine and its cosine at 1/5 and at 3/10 of the
    size.
    """
    first = 2 * (size // 10)
    second = max(2 * (3 * size // 20), first + 2)
    return [d for d in (first, first + 1, second, second + 1) if d < size]


def _waves(encoding: np.ndarray, title: str, marked: int | None, between: int) -> Chart:
    """Return the chart of the shown dimensions, with one panel for each wavelength."""
    names = ("sine", "cosine")
    series = list[Series]()
    for paint, d in enumerate(shown_dimensions(encoding.shape[1])):
        points = tuple((n / between, float(y)) for n, y in enumerate(encoding[:, d]))
        name = words("dimension {d}, " + names[d % 2], d=d)
        if marked is not None:
            value = f"{encoding[marked * between, d]:.2f}".replace("-", "−")
            name = words("{name}; at {t}: {value}", name=name, t=marked, value=value)
        series.append(Series(name, points, paint=paint, every=between))

    guide = () if marked is None else ((float(marked), -1.0), (float(marked), 1.0))
    x_label = words("position")
    waves = {"value, short waves": series[:2], "value, longer waves": series[2:]}
    panels = [
        Panel(words(name), x_label, tuple(lines), guide=guide)
        for name, lines in waves.items()
        if lines
    ]
    return Chart(title, tuple(panels))


def layout_learned_positions(
    embeddings: Sequence[tuple[str, np.ndarray]],
    title: str = "Learned position embeddings",
) -> Figure:
    """Draw the learned position embeddings (T, D) of each side of the model, and beside them the
    cosine similarities of all pairs of positions.

    The similarities show what the model learned of distance and order; single dimensions have no
    meaning of their own.
    """
    texts = [Text(MARGIN, MARGIN + 14, title, TITLE_SIZE)]
    groups = []
    descriptions = []
    top = MARGIN + 40
    width = 0.0
    for name, vectors in embeddings:
        T, D = vectors.shape
        size = words("{T} positions in {D} dimensions", T=T, D=D)
        texts.append(Text(MARGIN, top + 12, f"{words(name)}: {size}", 13.0))

        largest = float(np.abs(vectors).max()) or 1.0
        vector_marks, right, bottom = _matrix(
            vectors, "dimension", largest, MARGIN, top + 52
        )
        norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        cosines = (vectors / norms) @ (vectors / norms).T
        cosine_marks, cosine_right, _ = _matrix(
            cosines, "position; shade: cosine similarity", 1.0, right + GAP, top + 52
        )

        groups.append(Group(name, (*vector_marks, *cosine_marks)))
        descriptions.append(f"{words(name)}: {words(ABOUT, T=T, D=D)}")
        top = bottom + 20
        width = max(width, cosine_right)

    right = max(width, *(text.x + measure(text.text, text.size) for text in texts))
    groups.append(Group("texts", tuple(texts)))
    return make_figure(right + MARGIN, top, groups, title, " ".join(descriptions))


def _matrix(
    values: np.ndarray,
    x_label: str,
    largest: float,
    x: float,
    top: float,
    marked: int | None = None,
) -> tuple[tuple[Mark, ...], float, float]:
    """Draw a matrix (T, D), coloured from −largest over 0 (the paper) to largest, with a frame
    around the `marked` row; return it with its right and bottom edges.
    """
    T, D = values.shape
    cell_width = max(1.0, min(8.0, 560.0 // D))
    cell_height = max(2.0, min(10.0, 400.0 // T))
    left = x + LEFT
    width = D * cell_width
    height = T * cell_height

    marks = list[Mark]()
    for t in range(T):
        y = top + t * cell_height
        paints = [signed_paint(float(value) / largest) for value in values[t]]
        for first, count, paint in _runs(paints):
            x_first = left + first * cell_width
            marks.append(Box(x_first, y, count * cell_width, cell_height, paint))
    marks.append(Text(left, top - 22, f"{words(x_label)} →", SIZE, "muted"))
    marks.append(Text(x, top - 6, words("position"), SIZE, "muted"))
    for t in _ticks(T):
        y = top + (t + 0.5) * cell_height + MIDLINE * SIZE
        marks.append(Text(left - 8, y, str(t), SIZE, "muted", "end"))
    for d in _ticks(D):
        centre = left + (d + 0.5) * cell_width
        marks.append(Text(centre, top - 6, str(d), SIZE, "muted", "middle"))

    scale_marks, scale_right = _colour_scale(largest, left, top + height + 20)
    marks += scale_marks
    marks.append(Box(left - 1, top - 1, width + 2, height + 2, "rule", outline=1.0))
    if marked is not None:
        y = top + marked * cell_height
        marks.append(
            Box(left - 2, y - 1, width + 4, cell_height + 2, "link", outline=2.0)
        )
    return tuple(marks), max(left + width, scale_right), top + height + 48


def _colour_scale(largest: float, left: float, top: float) -> tuple[list[Mark], float]:
    """Draw the colours from −largest to largest with both ends; return them with the right edge."""
    end = f"{largest:.3g}"
    bar = left + 12 + measure(f"−{end}", SIZE)
    marks: list[Mark] = [
        Text(left, top + 10, f"−{end}", SIZE, "muted"),
        Text(bar + 212, top + 10, end, SIZE, "muted"),
    ]
    for n in range(101):
        marks.append(Box(bar + 2 * n, top, 2.0, 12.0, signed_paint(n / 50 - 1)))
    return marks, bar + 212 + measure(end, SIZE)


def _runs(paints: Sequence[str]) -> list[tuple[int, int, str]]:
    """Merge equal neighbours; return the first column, the number of columns and the paint of each
    run.
    """
    runs = list[tuple[int, int, str]]()
    first = 0
    for paint, equal in groupby(paints):
        count = len(list(equal))
        runs.append((first, count, paint))
        first += count
    return runs


def _ticks(count: int) -> range:
    """Return at most eight evenly spaced numbers below `count`, from 0 on."""
    for step in (1, 2, 5, 10, 20, 50, 100):
        if count / step <= 8:
            return range(0, count, step)
    return range(0, count, count)
