"""Line charts with linear, logarithmic or categorical axes: learning curves, scores by length,
growth of costs.

On logarithmic axes a power law is a straight line. Each series has its own colour and its own
marker, so that it can be told apart without colour; a series may carry a band (an interval around
each point), drawn as error bars.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from statistics import fmean
from typing import Literal

from regard.common.errors import UsageError
from regard.visualisation import figure as drawing
from regard.visualisation.colours import SERIES
from regard.visualisation.figure import (
    ASCENT,
    LINE_HEIGHT,
    MARGIN,
    MIDLINE,
    Box,
    Figure,
    Group,
    Mark,
    Polyline,
    Text,
)
from regard.visualisation.fonts import measure, wrap

Scale = Literal["linear", "log"]

# Width and height inside a panel: one column, several.
LARGE_PANEL, SMALL_PANEL = (
    (542.0, 240.0),
    (300.0, 210.0),
)
# Pixels around the inside of a panel, and between columns.
LEFT, ABOVE, BELOW, GAP = (
    62.0,
    28.0,
    44.0,
    12.0,
)
PANEL_SIZE, SIZE = 13.0, 12.0  # text sizes
MARKER = 4.0  # radius in pixels
# Width of the line of one seed among several, of a series, of the mean of seeds.
THIN, USUAL, THICK = (
    0.8,
    2.0,
    3.0,
)
# A longer series is drawn without markers; a mean has so many at most.
MAX_MARKERS, MEAN_MARKERS = (
    40,
    10,
)
MAX_TICKS = 8
# (corners, rotation in degrees, relative radius): circle, square, triangle, diamond, triangle
# pointing down, hexagon
SHAPES = (
    (16, 0, 1),
    (4, 45, 1.2),
    (3, -90, 1.3),
    (4, 0, 1.35),
    (3, 90, 1.3),
    (6, 0, 1.1),
    (3, 0, 1.3),
    (5, -90, 1.2),
)


@dataclass(frozen=True)
class Series:
    """One line of a chart: (x, y) points from left to right, with an optional (low, high) interval
    for each.

    `paint`: number of its colour and marker, which several series may share, such as the seeds of
    one system; if None, its place among the series of its panel. Series of one name are labelled
    once.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float], ...] | None = None
    label: str = ""  # text at the end of the line; if empty, the name
    paint: int | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its series; panels with the same `x_label` share the range of x.

    With `categories`, x counts them from 0, and the markers of several series stand side by side.
    `guide`: points of a thin line behind the series, such as a diagonal.
    """

    title: str
    x_label: str
    series: tuple[Series, ...]
    categories: tuple[str, ...] = ()
    guide: tuple[tuple[float, float], ...] = ()

    def paints(self) -> list[int]:
        """Return the number of the colour and marker of each series."""
        return [
            number if line.paint is None else line.paint
            for number, line in enumerate(self.series)
        ]

    def lines(self) -> list[tuple[Series, int, float]]:
        """Return each series with its paint and the width of its line, those on top last.

        Where series of one name and paint, such as the seeds of one system, share their x, their
        mean joins them.
        """
        groups = dict[tuple[str, int], list[Series]]()
        lines = list[tuple[Series, int, float]]()
        for series, paint in zip(self.series, self.paints(), strict=True):
            groups.setdefault((series.label or series.name, paint), []).append(series)
        for (_, paint), members in groups.items():
            values = [dict(series.points) for series in members]
            shared = [x for x in values[0] if all(x in row for row in values)]
            width = THIN if len(members) > 1 and len(shared) > 1 else USUAL
            lines += [(series, paint, width) for series in members]
            if width == THIN:
                mean = tuple((x, fmean(row[x] for row in values)) for x in shared)
                lines.append(
                    (replace(members[0], points=mean, band=None), paint, THICK)
                )
        return sorted(lines, key=lambda line: line[2] != THIN)

    def end_label(self, series: Series) -> str:
        """Return the text at the end of a series; empty if it only repeats the title."""
        return (
            ""
            if (series.label or series.name) == self.title
            else series.label or series.name
        )


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
        causes = (
            []
            if self.panels
            else [f"{self.title}: there is nothing to draw yet; a chart needs a panel"]
        )
        for panel in self.panels:
            count = max(panel.paints(), default=-1) + 1
            if not 1 <= count <= SERIES:
                causes.append(
                    f"{panel.title}: a panel holds 1 to {SERIES} series, got {count}"
                )
            for series in panel.series:
                if not series.points:
                    causes.append(
                        f"{panel.title}, {series.name}: there is nothing to draw yet; a series "
                        "needs a point"
                    )
                elif self.scale == "log" and not all(
                    0 < value < math.inf for point in series.points for value in point
                ):
                    causes.append(
                        f"{panel.title}, {series.name}: a logarithmic axis needs numbers above zero"
                    )
        UsageError.raise_all(causes)


def layout_chart(chart: Chart, narrow: float = 0.0) -> Figure:
    """Lay out the panels of a chart in rows, with a legend below if the lines are not labelled by
    name.

    `narrow`: the width of a small screen; panels then stand below each other, and names only in the
    legend.
    """
    chart = replace(chart, columns=1) if narrow else chart
    columns = min(chart.columns, len(chart.panels))
    one = (narrow - 2 * MARGIN - LEFT - 12, SMALL_PANEL[1]) if narrow else LARGE_PANEL
    inside = one if columns == 1 else SMALL_PANEL
    labels = [
        panel.end_label(series)
        for panel in chart.panels
        for series in panel.series
        if not narrow
    ]
    right = max(
        (measure(label, SIZE) + 9 + 3 * MARKER + 4 for label in labels if label),
        default=12.0,
    )
    width = 2 * MARGIN + columns * (LEFT + inside[0] + right) + (columns - 1) * GAP
    header, header_height = drawing.header_lines(
        chart.title, chart.caption, width - 2 * MARGIN
    )
    top = MARGIN + header_height
    groups = [Group("header", header)]
    ticks = max(
        (
            len(lines)
            for panel in chart.panels
            for lines in _category_lines(panel, inside[0])
        ),
        default=1,
    )
    row_height = ABOVE + inside[1] + BELOW + (ticks - 1) * LINE_HEIGHT * SIZE
    for number in range(len(chart.panels)):
        row, column = divmod(number, columns)
        x = MARGIN + LEFT + column * (LEFT + inside[0] + right + GAP)
        panel = _panel(
            chart, number, Box(x, top + ABOVE + row * row_height, *inside, "paper")
        )
        groups += panel[:-1] if narrow else panel
    height = top + -(-len(chart.panels) // columns) * row_height
    if narrow or any(line.label for panel in chart.panels for line in panel.series):
        legend, height = _legend(chart, height + 14, width)
        groups.append(Group("legend", legend))
    return drawing.make_figure(
        width, height + MARGIN, groups, chart.title or "Chart", _description(chart)
    )


def _panel(chart: Chart, number: int, area: Box) -> list[Group]:
    """Draw the axes and series of a panel in `area`; the label of the x-axis is left out if the
    panel below has it.
    """
    panel = chart.panels[number]
    columns = min(chart.columns, len(chart.panels))
    x_axis = _x_axis(chart, panel, area)
    ys = [y for series in panel.series for _, y in (*series.points, *panel.guide)]
    ys += chain.from_iterable(
        interval for series in panel.series for interval in series.band or ()
    )
    y_axis = _Axis(ys, (area.y + area.height, area.y), chart.scale, 0.06)
    grid = [
        Box(area.x, y_axis.at(tick), area.width, 1.0, "grid") for tick in y_axis.ticks
    ]
    grid += [
        Box(x_axis.at(tick), area.y, 1.0, area.height, "grid") for tick in x_axis.ticks
    ]
    texts = [Text(area.x, area.y - 10, panel.title, PANEL_SIZE)]
    texts += [
        Text(area.x - 8, y_axis.at(t) + MIDLINE * SIZE, _short(t), SIZE, "muted", "end")
        for t in y_axis.ticks
    ]
    x_ticks, below = _x_ticks(panel, x_axis, area)
    texts += x_ticks
    if not any(
        other.x_label == panel.x_label
        for other in chart.panels[number + columns : number + columns + 1]
    ):
        texts.append(
            Text(
                area.x + area.width / 2,
                below + 17,
                panel.x_label,
                SIZE,
                "muted",
                "middle",
            )
        )
    guide = (
        [
            Polyline(
                tuple((x_axis.at(x), y_axis.at(y)) for x, y in panel.guide), "rule", 1.5
            )
        ]
        if panel.guide
        else []
    )
    offsets = _offsets(panel, area.width)
    lines = [
        mark
        for series, paint, width in panel.lines()
        for mark in _line(
            series, (paint, width), x_axis, y_axis, offsets[paint], panel.categories
        )
    ]
    return [
        Group(f"grid-{number}", tuple(grid)),
        Group(f"axes-{number}", tuple(texts)),
        Group(f"lines-{number}", (*guide, *lines)),
        Group(
            f"ends-{number}", _end_labels(_ends(panel, y_axis), area.x + area.width + 9)
        ),
    ]


def _x_axis(chart: Chart, panel: Panel, area: Box) -> _Axis:
    """Return the axis of x; points that are no lines are kept away from its ends."""
    ends = area.x, area.x + area.width
    if panel.categories:
        places = [float(place) for place in range(len(panel.categories))]
        return _Axis((-0.5, len(places) - 0.5), ends, "linear", 0.0, places)
    sharing = [
        other
        for other in chart.panels
        if other.x_label == panel.x_label and not other.categories
    ]
    xs = [
        x
        for other in sharing
        for series in other.series
        for x, _ in (*series.points, *other.guide)
    ]
    is_scatter = len(panel.series) > 1 and all(
        len(series.points) == 1 for series in panel.series
    )
    return _Axis(xs, ends, chart.scale, 0.06 if is_scatter else 0.0)


def _x_ticks(panel: Panel, axis: _Axis, area: Box) -> tuple[list[Text], float]:
    """Return the labels below the axis of x, and the baseline of the lowest one."""
    baseline = area.y + area.height + 16
    if not panel.categories:
        return [
            Text(axis.at(t), baseline, _short(t), SIZE, "muted", "middle")
            for t in axis.ticks
        ], baseline
    columns = _category_lines(panel, area.width)
    texts = [
        Text(
            axis.at(place),
            baseline + row * LINE_HEIGHT * SIZE,
            line,
            SIZE,
            "muted",
            "middle",
        )
        for place, lines in zip(axis.ticks, columns, strict=True)
        for row, line in enumerate(lines)
    ]
    return texts, baseline + (max(map(len, columns)) - 1) * LINE_HEIGHT * SIZE


def _category_lines(panel: Panel, width: float) -> list[list[str]]:
    """Break the labels of categories into lines that fit beside each other."""
    return [
        wrap(label, SIZE, width / len(panel.categories) - 4) or [""]
        for label in panel.categories
    ]


def _offsets(panel: Panel, width: float) -> dict[int, float]:
    """Return how far series of each paint move along x, so that error bars of a category do not
    cover each other.
    """
    paints = sorted(set(panel.paints()))
    step = (
        min(2.5 * MARKER, 0.7 * width / len(panel.categories) / len(paints))
        if panel.categories
        else 0.0
    )
    return {paint: step * (n - (len(paints) - 1) / 2) for n, paint in enumerate(paints)}


def _ends(panel: Panel, y_axis: _Axis) -> list[tuple[float, str, int]]:
    """Return height, text and paint of the labels at the ends of lines; series of one name share
    theirs.
    """
    heights: dict[tuple[str, int], list[float]] = {}
    for series, paint, width in panel.lines():
        if (label := panel.end_label(series)) and width != THIN:
            heights.setdefault((label, paint), []).append(
                y_axis.at(series.points[-1][1])
            )
    return [(sum(ys) / len(ys), text, paint) for (text, paint), ys in heights.items()]


class _Axis:
    """A linear or logarithmic map from values to pixels, with ticks at round numbers.

    `pad` is added at both ends, as a share of the range; an axis of positive numbers is not padded
    below zero. `ticks`: where they are, if not at round numbers.
    """

    def __init__(
        self,
        values: Sequence[float],
        ends: tuple[float, float],
        scale: Scale,
        pad: float,
        ticks: Sequence[float] = (),
    ) -> None:
        self._scale, (self._start, self._end) = scale, ends
        low = self._transform(min(values))
        high = self._transform(max(values))
        room = (
            (high - low) * pad
            if high > low
            else 0.05 * abs(high) + (0.1 if scale == "log" else 1e-9)
        )
        self._low = low - room
        self._high = high + room
        if scale == "linear" and pad and low >= 0 > self._low:
            self._low = 0.0
        if ticks:
            self.ticks = list(ticks)
        elif scale == "log":
            points = sorted(set(values))
            self.ticks = (
                points if not pad and len(points) <= MAX_TICKS else self._decades()
            )
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
        step *= next(
            times for times in (1, 2, 5, 10) if span / (step * times) <= MAX_TICKS
        )
        first = math.ceil(self._low / step - 1e-9)
        last = math.floor(self._high / step + 1e-9)
        return [n * step for n in range(first, last + 1)]

    def _decades(self) -> list[float]:
        """Powers of ten; with fewer than three in range, also multiples of them."""
        ticks: list[float] = []
        for factors in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7), range(1, 10)):
            exponents = range(math.floor(self._low), math.ceil(self._high) + 1)
            ticks = [factor * 10.0**e for e in exponents for factor in factors]
            ticks = [
                tick for tick in ticks if self._low <= math.log10(tick) <= self._high
            ]
            if len(ticks) >= 3:
                break
        return ticks


def _line(
    series: Series,
    look: tuple[int, float],
    x_axis: _Axis,
    y_axis: _Axis,
    offset: float,
    categories: Sequence[str],
) -> Iterator[Mark]:
    """Draw a series as a line, with error bars and markers unless it is thin, or of too many points
    for markers.
    """
    (number, width), points = (
        look,
        [(x_axis.at(x) + offset, y_axis.at(y)) for x, y in series.points],
    )
    paint = f"{'t' if width == THIN else 's'}{number}"
    if len(points) > 1:
        yield Polyline(tuple(points), paint, width)
    for i, (x, y) in enumerate(points if width != THIN else ()):
        at = series.points[i][0]
        hint = (
            f"{series.name}: {_short(series.points[i][1])} at "
            f"{categories[round(at)] if categories else _short(at)}"
        )
        if series.band is not None:
            low, high = (y_axis.at(edge) for edge in series.band[i])
            yield Polyline(((x, low), (x, high)), paint, 1.5)
            yield from (
                Polyline(((x - 4, edge), (x + 4, edge)), paint, 1.5)
                for edge in (low, high)
            )
            hint += f", {_short(series.band[i][0])} to {_short(series.band[i][1])}"
        if len(points) <= MAX_MARKERS and (
            width != THICK or i % -(-len(points) // MEAN_MARKERS) == 0
        ):
            yield Polyline(_marker(number, x, y), paint, hint=hint)


def _short(value: float) -> str:
    for least, letter in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= least:
            return f"{value / least:.4g}{letter}".replace("-", "−")
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}").replace("-", "−")


def _marker(number: int, x: float, y: float) -> tuple[tuple[float, float], ...]:
    """Return the corners of the marker of series `number`."""
    corners, turn, size = SHAPES[number]
    angles = (math.radians(turn + 360 * corner / corners) for corner in range(corners))
    return tuple(
        (x + MARKER * size * math.cos(angle), y + MARKER * size * math.sin(angle))
        for angle in angles
    )


def _end_labels(ends: list[tuple[float, str, int]], x: float) -> tuple[Mark, ...]:
    """Place (y, label, paint) with their markers at the ends of lines, moved apart until none
    overlaps another.
    """
    ends = sorted(ends)
    step = SIZE * 1.2
    heights = [y for y, _, _ in ends]
    for _ in range(40):
        for above, below in pairwise(range(len(heights))):
            overlap = step - (heights[below] - heights[above])
            if overlap > 0:
                heights[above] -= overlap / 2
                heights[below] += overlap / 2
    marks: list[Mark] = []
    for y, (_, label, paint) in zip(heights, ends, strict=True):
        marks.append(Polyline(_marker(paint, x + MARKER, y), f"s{paint}"))
        marks.append(Text(x + 3 * MARKER, y + MIDLINE * SIZE, label, SIZE, f"s{paint}"))
    return tuple(marks)


def _legend(chart: Chart, top: float, width: float) -> tuple[tuple[Mark, ...], float]:
    """Return the names of the series with their markers, in as many rows as they need, and the
    bottom of the last.
    """
    numbers = {
        s.name: paint
        for panel in chart.panels
        for s, paint in zip(panel.series, panel.paints(), strict=True)
    }
    marks: list[Mark] = []
    x = MARGIN + LEFT
    row = LINE_HEIGHT * SIZE * 1.2
    for name, number in numbers.items():
        room = 26 + measure(name, SIZE) + 12
        if x + room > width - MARGIN and x > MARGIN + LEFT:
            x = MARGIN + LEFT
            top = top + row
        marks.append(Polyline(((x - 10, top), (x + 10, top)), f"s{number}", 2.0))
        marks.append(Polyline(_marker(number, x, top), f"s{number}"))
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
