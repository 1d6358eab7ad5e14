"""Line charts with linear or logarithmic axes: learning curves, learning rates, scores by length, growth of costs.

On logarithmic axes a power law is a straight line. Each series has its own colour and its own marker, so that it can be
told apart without colour; a series may carry a band (an interval around each point), drawn as error bars.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from regard.errors import UsageError
from regard.visualisation.colours import SERIES
from regard.visualisation.figure import (
    ASCENT,
    LINE_HEIGHT,
    MARGIN,
    MIDLINE,
    Box,
    Figure,
    Group,
    Line,
    Mark,
    Text,
    header_height,
    header_lines,
    make_figure,
)
from regard.visualisation.fonts import measure

Scale = Literal["linear", "log"]

LARGE_PANEL, SMALL_PANEL = (542.0, 240.0), (300.0, 210.0)  # width and height inside a panel: one column, several
LEFT, ABOVE, BELOW, GAP = 62.0, 28.0, 44.0, 12.0  # pixels around the inside of a panel, and between columns
PANEL_SIZE, SIZE = 13.0, 12.0  # text sizes
MARKER = 4.0  # radius in pixels
MAX_MARKERS = 40  # a longer series is drawn without markers
MAX_TICKS = 8
# (corners, rotation in degrees, relative radius): circle, square, triangle, diamond, triangle pointing down, hexagon
SHAPES = ((16, 0.0, 1.0), (4, 45.0, 1.2), (3, -90.0, 1.3), (4, 0.0, 1.35), (3, 90.0, 1.3), (6, 0.0, 1.1))


@dataclass(frozen=True)
class Series:
    """One line of a chart: (x, y) points from left to right, with an optional (low, high) interval for each."""

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float], ...] | None = None
    label: str = ""  # text at the end of the line; if empty, the name


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its series; panels with the same `x_label` share the range of x."""

    title: str
    x_label: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Chart:
    """Panels in rows of `columns`; `table` is text that an HTML page shows below them."""

    title: str
    panels: tuple[Panel, ...]
    caption: str = ""
    scale: Scale = "linear"
    columns: int = 1
    table: str = ""

    def __post_init__(self) -> None:
        causes = [] if self.panels else [f"{self.title}: there is nothing to draw yet; a chart needs a panel"]
        for panel in self.panels:
            if not 1 <= len(panel.series) <= SERIES:
                causes.append(f"{panel.title}: a panel holds 1 to {SERIES} series, got {len(panel.series)}")
            for series in panel.series:
                if not series.points:
                    causes.append(f"{panel.title}, {series.name}: there is nothing to draw yet; a series needs a point")
                elif self.scale == "log" and not all(
                    0 < value < math.inf for point in series.points for value in point
                ):
                    causes.append(f"{panel.title}, {series.name}: a logarithmic axis needs numbers above zero")
        if causes:
            raise UsageError(*causes)


def layout_chart(chart: Chart) -> Figure:
    """Lay out the panels of a chart in rows, with a legend below if the lines are not labelled by name."""
    columns = min(chart.columns, len(chart.panels))
    inside = LARGE_PANEL if columns == 1 else SMALL_PANEL
    series = [series for panel in chart.panels for series in panel.series]
    right = max(measure(line.label or line.name, SIZE) for line in series) + 13
    width = 2 * MARGIN + columns * (LEFT + inside[0] + right) + (columns - 1) * GAP
    header = header_lines(chart.title, chart.caption, width - 2 * MARGIN)
    top = MARGIN + header_height(header)
    groups = [Group("header", header)]
    for number in range(len(chart.panels)):
        row, column = divmod(number, columns)
        x = MARGIN + LEFT + column * (LEFT + inside[0] + right + GAP)
        y = top + ABOVE + row * (ABOVE + inside[1] + BELOW)
        groups += _panel(chart, number, Box(x, y, *inside, "paper"))
    height = top + -(-len(chart.panels) // columns) * (ABOVE + inside[1] + BELOW)
    if any(line.label for line in series):
        legend, height = _legend(chart, height + 14, width)
        groups.append(Group("legend", legend))
    return make_figure(width, height + MARGIN, groups, chart.title or "Chart", _description(chart))


def _panel(chart: Chart, number: int, area: Box) -> list[Group]:
    """Draw the axes and series of a panel in `area`; the label of the x-axis is left out if the panel below has it."""
    panel, columns = chart.panels[number], min(chart.columns, len(chart.panels))
    sharing = [other for other in chart.panels if other.x_label == panel.x_label]
    xs = [x for other in sharing for series in other.series for x, _ in series.points]
    ys = [y for series in panel.series for y in (*(y for _, y in series.points), *_flatten(series.band))]
    x_axis = _Axis(xs, area.x, area.x + area.width, chart.scale)
    y_axis = _Axis(ys, area.y + area.height, area.y, chart.scale, padding=0.06)
    grid = [Box(area.x, y_axis.at(tick), area.width, 1.0, "grid") for tick in y_axis.ticks]
    grid += [Box(x_axis.at(tick), area.y, 1.0, area.height, "grid") for tick in x_axis.ticks]
    below = area.y + area.height
    texts = [Text(area.x, area.y - 10, panel.title, PANEL_SIZE)]
    texts += [Text(area.x - 8, y_axis.at(t) + MIDLINE * SIZE, _short(t), SIZE, "muted", "end") for t in y_axis.ticks]
    texts += [Text(x_axis.at(t), below + 16, _short(t), SIZE, "muted", "middle") for t in x_axis.ticks]
    if not any(other.x_label == panel.x_label for other in chart.panels[number + columns : number + columns + 1]):
        texts.append(Text(area.x + area.width / 2, below + 33, panel.x_label, SIZE, "muted", "middle"))
    lines = [mark for n, series in enumerate(panel.series) for mark in _line(series, n, x_axis, y_axis)]
    ends = [(y_axis.at(s.points[-1][1]), s.label or s.name, f"s{n}") for n, s in enumerate(panel.series)]
    return [
        Group(f"grid-{number}", tuple(grid)),
        Group(f"axes-{number}", tuple(texts)),
        Group(f"lines-{number}", tuple(lines)),
        Group(f"ends-{number}", _end_labels(ends, area.x + area.width + 9)),
    ]


def _flatten(band: Sequence[tuple[float, float]] | None) -> list[float]:
    return [edge for interval in band or () for edge in interval]


class _Axis:
    """A linear or logarithmic map from values to pixels, with ticks at round numbers.

    `padding` is added at both ends, as a share of the range; an axis of positive numbers is not padded below zero.
    """

    def __init__(self, values: Sequence[float], start: float, end: float, scale: Scale, padding: float = 0.0) -> None:
        self._scale, self._start, self._end = scale, start, end
        low, high = self._transform(min(values)), self._transform(max(values))
        room = (high - low) * padding if high > low else 0.05 * abs(high) + (0.1 if scale == "log" else 1e-9)
        self._low, self._high = low - room, high + room
        if scale == "linear" and padding and low >= 0 > self._low:
            self._low = 0.0
        if scale == "log":
            points = sorted(set(values))
            self.ticks = points if not padding and len(points) <= MAX_TICKS else self._decades()
        else:
            self.ticks = self._even_ticks()

    def at(self, value: float) -> float:
        """Return the position of a value in pixels."""
        share = (self._transform(value) - self._low) / (self._high - self._low)
        return self._start + (self._end - self._start) * share

    def _transform(self, value: float) -> float:
        return math.log10(value) if self._scale == "log" else value

    def _even_ticks(self) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten, four to eight of them."""
        span = self._high - self._low
        step = 10.0 ** math.floor(math.log10(span / 4))
        step *= next(times for times in (1, 2, 5, 10) if span / (step * times) <= MAX_TICKS)
        first, last = math.ceil(self._low / step - 1e-9), math.floor(self._high / step + 1e-9)
        return [n * step for n in range(first, last + 1)]

    def _decades(self) -> list[float]:
        """Powers of ten; with fewer than three in range, also multiples of them."""
        ticks: list[float] = []
        for factors in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
            exponents = range(math.floor(self._low), math.ceil(self._high) + 1)
            ticks = [factor * 10.0**e for e in exponents for factor in factors]
            ticks = [tick for tick in ticks if self._low <= math.log10(tick) <= self._high]
            if len(ticks) >= 3:
                break
        return ticks


def _line(series: Series, number: int, x_axis: _Axis, y_axis: _Axis) -> Iterator[Mark]:
    """Draw a series as a line, with error bars and markers unless there are too many points for markers."""
    paint = f"s{number}"
    points = [(x_axis.at(x), y_axis.at(y)) for x, y in series.points]
    if len(points) > 1:
        yield Line(tuple(points), paint, 2.0)
    for i, (x, y) in enumerate(points):
        hint = f"{series.name}: {_short(series.points[i][1])} at {_short(series.points[i][0])}"
        if series.band is not None:
            low, high = (y_axis.at(edge) for edge in series.band[i])
            yield Line(((x, low), (x, high)), paint, 1.5)
            yield from (Line(((x - 4, edge), (x + 4, edge)), paint, 1.5) for edge in (low, high))
            hint += f", {_short(series.band[i][0])} to {_short(series.band[i][1])}"
        if len(points) <= MAX_MARKERS:
            yield Line(_marker(number, x, y), paint, hint=hint)


def _short(value: float) -> str:
    for least, letter in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= least:
            return f"{value / least:.4g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _marker(number: int, x: float, y: float) -> tuple[tuple[float, float], ...]:
    """Return the corners of the marker of series `number`."""
    corners, turn, size = SHAPES[number]
    angles = (math.radians(turn + 360 * corner / corners) for corner in range(corners))
    return tuple((x + MARKER * size * math.cos(angle), y + MARKER * size * math.sin(angle)) for angle in angles)


def _end_labels(ends: list[tuple[float, str, str]], x: float) -> tuple[Text, ...]:
    """Place (y, label, paint) at the ends of lines, moved apart vertically until none overlaps another."""
    ends, step = sorted(ends), SIZE * 1.05
    heights = [y for y, _, _ in ends]
    for _ in range(40):
        for above, below in pairwise(range(len(heights))):
            overlap = step - (heights[below] - heights[above])
            if overlap > 0:
                heights[above] -= overlap / 2
                heights[below] += overlap / 2
    return tuple(
        Text(x, y + MIDLINE * SIZE, label, SIZE, paint) for y, (_, label, paint) in zip(heights, ends, strict=True)
    )


def _legend(chart: Chart, top: float, width: float) -> tuple[tuple[Mark, ...], float]:
    """Return the names of the series with their markers, in as many rows as they need, and the bottom of the last."""
    numbers = {series.name: number for panel in chart.panels for number, series in enumerate(panel.series)}
    marks: list[Mark] = []
    x, row = MARGIN + LEFT, LINE_HEIGHT * SIZE * 1.2
    for name, number in numbers.items():
        room = 26 + measure(name, SIZE) + 12
        if x + room > width - MARGIN and x > MARGIN + LEFT:
            x, top = MARGIN + LEFT, top + row
        marks.append(Line(((x - 10, top), (x + 10, top)), f"s{number}", 2.0))
        marks.append(Line(_marker(number, x, top), f"s{number}"))
        marks.append(Text(x + 17, top + MIDLINE * SIZE, name, SIZE))
        x += room
    return tuple(marks), top + (1 - ASCENT / 2) * row


def _description(chart: Chart) -> str:
    """Describe each series by its first and last value, for screen readers."""
    panels = (
        f"{panel.title} by {panel.x_label}: "
        + "; ".join(
            f"{s.name} from {_short(s.points[0][1])} to {_short(s.points[-1][1])} {s.label}".strip()
            for s in panel.series
        )
        for panel in chart.panels
    )
    return ". ".join(panels) + "."
