"""Lines over plain axes: what a run learnt, how its learning rate went, how quality goes with length.

A line may carry a band: the interval in which its values lie. Each has a colour and a marker of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import UsageError
from regard.visualisation.colours import SERIES, level
from regard.visualisation.fonts import measure, wrap
from regard.visualisation.layout import LINE_HEIGHT, MIDDLE, Box, Figure, Group, Line, Mark, Text, text_lines

__all__ = ["Chart", "Series", "layout_chart", "layout_places", "layout_positions"]

MARGIN, WIDE, HIGH = 18.0, 560.0, 240.0
LEFT, GAP = 62.0, 54.0  # pixels for the numbers beside, and between panels
TITLE, SIZE = 16.0, 12.0
FEW = 40  # points that are marked one by one


@dataclass(frozen=True)
class Series:
    """One line: points from left to right, and for each the interval around it where that is known."""

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float], ...] | None = None


@dataclass(frozen=True)
class Chart:
    """Panels one below the other, over the same axis: (what it shows, its lines)."""

    title: str
    across: str
    panels: tuple[tuple[str, tuple[Series, ...]], ...]
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.panels or any(not traces or not all(t.points for t in traces) for _, traces in self.panels):
            raise UsageError(f"{self.title}: there is nothing to draw yet; every line needs a point")
        if any(len(traces) > SERIES for _, traces in self.panels):
            raise UsageError(f"{self.title}: {SERIES} lines in a panel can be told apart; draw fewer")


def layout_chart(chart: Chart) -> Figure:
    """The chart as marks."""
    limit = LEFT + WIDE
    head = text_lines(wrap(chart.title, TITLE, limit), MARGIN, MARGIN, TITLE, "ink")
    below = MARGIN + LINE_HEIGHT * TITLE * len(head)
    caption = text_lines(wrap(chart.caption, SIZE, limit), MARGIN, below, SIZE, "muted")
    top = below + LINE_HEIGHT * SIZE * len(caption) + 28
    groups = [Group("header", head + caption)]
    across = _Axis([x for _, traces in chart.panels for trace in traces for x, _ in trace.points], MARGIN + LEFT, limit)
    for number, (name, traces) in enumerate(chart.panels):
        groups.append(Group(f"panel-{number}", tuple(_panel(name, traces, across, top))))
        top += HIGH + GAP
    last = Text((across.start + across.end) / 2, top - GAP + 36, chart.across, SIZE, "muted", "middle")
    width, height = math.ceil(limit + MARGIN + _right(chart)), math.ceil(top - GAP + 36 + MARGIN)
    paper = Group("paper", (Box(0.0, 0.0, float(width), float(height), "paper"),))
    return Figure(width, height, (paper, *groups, Group("across", (last,))), chart.title, _description(chart))


def _right(chart: Chart) -> float:
    """Room for the names at the ends of lines."""
    return max(measure(trace.name, SIZE) for _, traces in chart.panels for trace in traces) + 4


class _Axis:
    """An even axis from one place to another, with four to eight round numbers."""

    def __init__(self, values: Sequence[float], start: float, end: float, loose: float = 0.0) -> None:
        low, high = min(values), max(values)
        room = (high - low) * loose or (abs(high) * 0.05 + 1e-9 if high == low else 0.0)
        self.low, self.high, self.start, self.end = low - room, high + room, start, end
        if loose and low >= 0 > self.low:
            self.low = 0.0
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(times for times in (1, 2, 5, 10) if (self.high - self.low) / (step * times) <= 8)
        first = math.ceil(self.low / step - 1e-9)
        self.ticks = [n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)


def _panel(name: str, traces: Sequence[Series], across: _Axis, top: float) -> list[Mark]:
    values = [y for trace in traces for _, y in trace.points] + [
        y for t in traces for pair in t.band or () for y in pair
    ]
    up = _Axis(values, top + HIGH, top, loose=0.06)
    marks: list[Mark] = [Text(across.start, top - 10, name, 13.0, "ink")]
    marks += [Box(across.start, up.at(tick), WIDE - MARGIN, 1.0, "lattice") for tick in up.ticks]
    marks += [Text(across.start - 8, up.at(t) + MIDDLE * SIZE, _short(t), SIZE, "muted", "end") for t in up.ticks]
    marks += [Box(across.at(tick), top, 1.0, HIGH, "lattice") for tick in across.ticks]
    marks += [Text(across.at(t), top + HIGH + 16, _short(t), SIZE, "muted", "middle") for t in across.ticks]
    ends: list[float] = []
    for number, trace in enumerate(traces):
        marks += _drawn(trace, f"s{number}", across, up)
        y = up.at(trace.points[-1][1]) + MIDDLE * SIZE
        while any(abs(y - other) < 14 for other in ends):  # names stand below one another
            y += 14
        ends.append(y)
        marks.append(Text(across.end + 9, y, trace.name, SIZE, f"s{number}"))
    return marks


def _drawn(trace: Series, paint: str, across: _Axis, up: _Axis) -> list[Mark]:
    points = [(across.at(x), up.at(y)) for x, y in trace.points]
    marks: list[Mark] = [Line(tuple(points), paint, 2.0)] if len(points) > 1 else []
    few = len(points) <= FEW
    for i, (x, y) in enumerate(points):
        hint = f"{trace.name}: {_short(trace.points[i][1])} at {_short(trace.points[i][0])}"
        if trace.band is not None:
            low, high = (up.at(edge) for edge in trace.band[i])
            marks.append(Line(((x, low), (x, high)), paint, 1.5))
            marks += [Line(((x - 4, edge), (x + 4, edge)), paint, 1.5) for edge in (low, high)]
            hint += f", {_short(trace.band[i][0])} to {_short(trace.band[i][1])}"
        if few:
            corners = [
                (x + 3.5 * math.cos(a), y + 3.5 * math.sin(a)) for a in np.linspace(0, 2 * math.pi, 12)[:-1].tolist()
            ]
            marks.append(Line(tuple(corners), paint, hint=hint))
    return marks


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _description(chart: Chart) -> str:
    told = [
        f"{name}, {trace.name}: from {_short(trace.points[0][1])} to {_short(trace.points[-1][1])}"
        for name, traces in chart.panels
        for trace in traces
    ]
    return f"{chart.across} from left to right. {'; '.join(told)}."


def layout_positions(waves: np.ndarray, title: str = "Positional encoding") -> Figure:
    """The encoding of positions (rows) in all dimensions (columns), from −1 (light) over 0 to 1 (dark)."""
    T, D = waves.shape
    table, width, height = _table(waves, "dimension", 1.0, MARGIN, MARGIN + 56)
    words = f"Waves over {T} positions in {D} dimensions; their lengths grow from the first dimension to the last."
    return _paper([Text(MARGIN, MARGIN + 14, title, TITLE)], [Group("waves", table)], width, height, title, words)


def layout_places(tables: Sequence[tuple[str, np.ndarray]], title: str = "Learnt positions") -> Figure:
    """The learnt vectors of positions, for each side that has some, and how alike those of any two positions are.

    Left the vectors (positions, dimensions), right the cosine of every position with every other: what was learnt of
    nearness and order is seen there, whatever the dimensions are.
    """
    texts, groups = [Text(MARGIN, MARGIN + 14, title, TITLE)], []
    top, wide, told = MARGIN + 40, 0.0, []
    for name, vectors in tables:
        T, D = vectors.shape
        texts.append(Text(MARGIN, top + 12, f"{name}: {T} positions in {D} dimensions", 13.0))
        largest = float(np.abs(vectors).max()) or 1.0
        left, right, bottom = _table(vectors, "dimension", largest, MARGIN, top + 52)
        near, end, _ = _table(_cosines(vectors), "position; shade: cosine of the two", 1.0, right + GAP, top + 52)
        groups.append(Group(name, (*left, *near)))
        told.append(f"{name}: vectors of {T} positions in {D} dimensions, and the cosine of each with each other.")
        top, wide = bottom + 20, max(wide, end)
    return _paper(texts, groups, wide, top, title, " ".join(told))


def _cosines(vectors: np.ndarray) -> np.ndarray:
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    alike: np.ndarray = (vectors / lengths) @ (vectors / lengths).T
    return alike


def _table(
    values: np.ndarray, across: str, largest: float, x: float, top: float
) -> tuple[tuple[Mark, ...], float, float]:
    """A table of numbers from −largest (light) to largest (dark), and where it ends on the right and below."""
    T, D = values.shape
    cell, high = max(1.0, min(8.0, 560.0 // D)), max(2.0, min(10.0, 400.0 // T))
    left = x + LEFT
    marks: list[Mark] = []
    for t in range(T):
        start = 0
        places = [level((float(value) / largest + 1) / 2) for value in values[t]]
        for d in range(1, D + 1):  # equal neighbours are one box
            if d == D or places[d] != places[start]:
                marks.append(Box(left + start * cell, top + t * high, (d - start) * cell, high, f"w{places[start]}"))
                start = d
    foot, end = top + T * high + 20, f"{largest:.3g}"
    marks += [Text(left, top - 22, f"{across} →", SIZE, "muted"), Text(x, top - 6, "position", SIZE, "muted")]
    marks += [Text(left - 8, top + (t + 0.5) * high + MIDDLE * SIZE, str(t), SIZE, "muted", "end") for t in _some(T)]
    marks += [Text(left + (d + 0.5) * cell, top - 6, str(d), SIZE, "muted", "middle") for d in _some(D)]
    scale = left + 12 + measure(f"−{end}", SIZE)
    marks += [Text(left, foot + 10, f"−{end}", SIZE, "muted"), Text(scale + 212, foot + 10, end, SIZE, "muted")]
    marks += [Box(scale + 2 * n, foot, 2.0, 12.0, f"w{n}") for n in range(101)]
    marks.append(Box(left - 1, top - 1, D * cell + 2, T * high + 2, "rule", outline=1.0))
    return tuple(marks), max(left + D * cell, scale + 212 + measure(end, SIZE)), top + T * high + 48


def _paper(
    texts: Sequence[Text], groups: Sequence[Group], right: float, bottom: float, title: str, words: str
) -> Figure:
    right = max(right, *(text.x + measure(text.text, text.size) for text in texts))
    width, height = math.ceil(right + MARGIN), math.ceil(bottom)
    paper = Group("paper", (Box(0.0, 0.0, float(width), float(height), "paper"),))
    return Figure(width, height, (paper, *groups, Group("texts", tuple(texts))), title, words)


def _some(count: int) -> range:
    return range(0, count, next((step for step in (1, 2, 5, 10, 20, 50, 100) if count / step <= 8), count))
