"""Line charts with linear, logarithmic or categorical axes: learning curves, scores by length,
growth of costs.

On logarithmic axes a power law is a straight line. Series differ in colour and in marker, so that
colour is not needed to tell them apart. A series may carry a band, an interval around each point,
which is drawn as error bars.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
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
from regard.visualisation.screen import screen_width

Scale = Literal["linear", "log"]

# Width and height in pixels of a panel's plot area: in one column, and in several.
LARGE_PANEL = (542.0, 240.0)
SMALL_PANEL = (300.0, 210.0)
LEFT = 62.0  # pixels left of a plot area
ABOVE = 28.0  # pixels above a plot area
BELOW = 44.0  # pixels below a plot area
GAP = 12.0  # pixels between two columns
PANEL_SIZE = 13.0  # text size of a panel's title
SIZE = 12.0  # text size of labels
MARKER = 4.0  # radius of a marker in pixels
THIN = 0.8  # line width of one seed among several
USUAL = 2.0  # line width of a series
THICK = 3.0  # line width of the mean over seeds
MAX_MARKERS = 40  # a longer series is drawn without markers
MEAN_MARKERS = 10  # largest number of markers on a mean
MAX_TICKS = 8
# Markers as (corners, rotation in degrees, relative radius): circle, square, triangle, diamond,
# triangle pointing down, hexagon, triangle pointing right, pentagon.
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

    `label`: text at the end of the line; if empty, the name. `paint`: number of the colour and
    marker, which several series may share, such as the seeds of one system; if None, the index of
    the series in its panel. Series of the same name are labelled once. `every`: of the points, one
    in so many has a marker.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float], ...] | None = None
    label: str = ""
    paint: int | None = None
    every: int = 1


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its series; panels with the same `x_label` share the range of x.

    If there are `categories`, x is their index, and the markers of several series stand side by
    side. `guide`: points of a thin line behind the series, such as a diagonal.
    """

    title: str
    x_label: str
    series: tuple[Series, ...]
    categories: tuple[str, ...] = ()
    guide: tuple[tuple[float, float], ...] = ()

    def paints(self) -> list[int]:
        """Return the number of the colour and marker of each series."""
        return [
            number if series.paint is None else series.paint
            for number, series in enumerate(self.series)
        ]

    def lines(self) -> list[tuple[Series, int, float]]:
        """Return each series with its paint and the width of its line, in painting order.

        If series of the same name and paint, such as the seeds of one system, have x-values in
        common, their mean is added.
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
        label = series.label or series.name
        return "" if label == self.title else label


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
        causes = []
        if not self.panels:
            causes.append(
                f"{self.title}: there is nothing to draw yet; a chart needs a panel"
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
    """Lay out the panels of a chart in rows, with a legend below if a line has a label other than
    its name.

    `narrow`: the width of a small screen, by default that of the context, or 0. On a small screen
    panels form one column, and names stand only in the legend.
    """
    narrow = narrow or screen_width()
    if narrow:
        chart = replace(chart, columns=1)
    columns = min(chart.columns, len(chart.panels))
    area_width, area_height = LARGE_PANEL if columns == 1 else SMALL_PANEL
    if narrow:
        area_width = narrow - 2 * MARGIN - LEFT - 12
        area_height = SMALL_PANEL[1]
    right = 12.0 if narrow else _label_room(chart)
    column_width = LEFT + area_width + right
    width = 2 * MARGIN + columns * column_width + (columns - 1) * GAP
    header, header_height = drawing.header_lines(
        chart.title, chart.caption, width - 2 * MARGIN
    )

    top = MARGIN + header_height
    groups = [Group("header", header)]
    line_counts = [1]
    for panel in chart.panels:
        line_counts += [len(lines) for lines in _category_lines(panel, area_width)]
    extra_lines = max(line_counts) - 1
    row_height = ABOVE + area_height + BELOW + extra_lines * LINE_HEIGHT * SIZE
    for number in range(len(chart.panels)):
        row, column = divmod(number, columns)
        x = MARGIN + LEFT + column * (column_width + GAP)
        y = top + ABOVE + row * row_height
        area = Box(x, y, area_width, area_height, "paper")
        *panel_groups, end_labels = _panel(chart, number, area)
        groups += panel_groups
        if not narrow:
            groups.append(end_labels)

    height = top + -(-len(chart.panels) // columns) * row_height
    has_labels = any(series.label for panel in chart.panels for series in panel.series)
    if narrow and _names_differ(chart):
        groups += _panel_legends(chart, top + ABOVE, row_height, width)
    elif narrow or has_labels:
        legend, height = _legend(chart, height + 14, width)
        groups.append(Group("legend", legend))
    return drawing.make_figure(
        width, height + MARGIN, groups, chart.title or "Chart", _description(chart)
    )


def _label_room(chart: Chart) -> float:
    """Return the pixels that the labels at the ends of lines need."""
    widths = []
    for panel in chart.panels:
        for series in panel.series:
            label = panel.end_label(series)
            if label:
                widths.append(measure(label, SIZE) + 9 + 3 * MARKER + 4)
    return max(widths, default=12.0)


def _panel(chart: Chart, number: int, area: Box) -> list[Group]:
    """Draw the axes and series of a panel in `area`, the labels at the ends of lines last.

    The x-axis has no label if the panel below has the same one.
    """
    panel = chart.panels[number]
    x_axis = _x_axis(chart, panel, area)
    y_axis = _y_axis(chart, panel, area)
    grid = [
        Box(area.x, y_axis.at(tick), area.width, 1.0, "grid") for tick in y_axis.ticks
    ]
    grid += [
        Box(x_axis.at(tick), area.y, 1.0, area.height, "grid") for tick in x_axis.ticks
    ]

    texts = [Text(area.x, area.y - 10, panel.title, PANEL_SIZE)]
    for tick in y_axis.ticks:
        baseline = y_axis.at(tick) + MIDLINE * SIZE
        texts.append(Text(area.x - 8, baseline, _short(tick), SIZE, "muted", "end"))
    x_ticks, lowest = _x_ticks(panel, x_axis, area)
    texts += x_ticks
    below = number + min(chart.columns, len(chart.panels))
    has_panel_below = below < len(chart.panels)
    if not has_panel_below or chart.panels[below].x_label != panel.x_label:
        middle = area.x + area.width / 2
        texts.append(Text(middle, lowest + 17, panel.x_label, SIZE, "muted", "middle"))

    lines = list[Mark]()
    if panel.guide:
        points = tuple((x_axis.at(x), y_axis.at(y)) for x, y in panel.guide)
        lines.append(Polyline(points, "rule", 1.5))
    offsets = _offsets(panel, area.width)
    for series, paint, width in panel.lines():
        offset = offsets[paint]
        lines += _line(series, (paint, width), x_axis, y_axis, offset, panel.categories)
    end_labels = _end_labels(_ends(panel, y_axis), area.x + area.width + 9)
    return [
        Group(f"grid-{number}", tuple(grid)),
        Group(f"axes-{number}", tuple(texts)),
        Group(f"lines-{number}", tuple(lines)),
        Group(f"ends-{number}", end_labels),
    ]


def _y_axis(chart: Chart, panel: Panel, area: Box) -> _Axis:
    """Return the y-axis, which covers all points, intervals and the guide of a panel."""
    ys = [y for _, y in panel.guide]
    for series in panel.series:
        ys += [y for _, y in series.points]
        for low, high in series.band or ():
            ys += (low, high)
    return _Axis(ys, (area.y + area.height, area.y), chart.scale, 0.06)


def _x_axis(chart: Chart, panel: Panel, area: Box) -> _Axis:
    """Return the x-axis; in a scatter plot, points are kept away from its ends."""
    ends = area.x, area.x + area.width
    if panel.categories:
        places = [float(place) for place in range(len(panel.categories))]
        return _Axis((-0.5, len(places) - 0.5), ends, "linear", 0.0, places)
    xs = list[float]()
    for other in chart.panels:
        if other.x_label == panel.x_label and not other.categories:
            xs += [x for x, _ in other.guide]
            for series in other.series:
                xs += [x for x, _ in series.points]
    is_scatter = len(panel.series) > 1 and all(
        len(series.points) == 1 for series in panel.series
    )
    return _Axis(xs, ends, chart.scale, 0.06 if is_scatter else 0.0)


def _x_ticks(panel: Panel, axis: _Axis, area: Box) -> tuple[list[Text], float]:
    """Return the labels below the x-axis, and the baseline of the lowest one."""
    baseline = area.y + area.height + 16
    labels = [[_short(tick)] for tick in axis.ticks]
    if panel.categories:
        labels = _category_lines(panel, area.width)
    texts = []
    for tick, lines in zip(axis.ticks, labels, strict=True):
        for row, line in enumerate(lines):
            y = baseline + row * LINE_HEIGHT * SIZE
            texts.append(Text(axis.at(tick), y, line, SIZE, "muted", "middle"))
    most_lines = max((len(lines) for lines in labels), default=1)
    return texts, baseline + (most_lines - 1) * LINE_HEIGHT * SIZE


def _category_lines(panel: Panel, width: float) -> list[list[str]]:
    """Break the labels of categories into lines that fit beside each other; if a word is too wide
    for that, neighbours stand on several levels, and have as much more room.
    """
    if not panel.categories:
        return []
    pitch = width / len(panel.categories)
    words = " ".join(panel.categories).split()
    widest = max((measure(word, SIZE) for word in words), default=0.0)
    levels = math.ceil((widest + 4) / pitch)
    labels = [
        wrap(label, SIZE, pitch * levels - 4) or [""] for label in panel.categories
    ]
    lowered = [""] * max(map(len, labels))
    return [[*lowered * (n % levels), *lines] for n, lines in enumerate(labels)]


def _offsets(panel: Panel, width: float) -> dict[int, float]:
    """Return the shift along x for the series of each paint, so that the error bars of a category
    do not cover each other.
    """
    paints = sorted(set(panel.paints()))
    step = 0.0
    if panel.categories:
        step = min(2.5 * MARKER, 0.7 * width / len(panel.categories) / len(paints))
    return {paint: step * (n - (len(paints) - 1) / 2) for n, paint in enumerate(paints)}


def _ends(panel: Panel, y_axis: _Axis) -> list[tuple[float, str, int]]:
    """Return the height, text and paint of the labels at the ends of lines; series of the same name
    share a label at their mean height.
    """
    heights: dict[tuple[str, int], list[float]] = {}
    for series, paint, width in panel.lines():
        label = panel.end_label(series)
        if label and width != THIN:
            _, last = series.points[-1]
            heights.setdefault((label, paint), []).append(y_axis.at(last))
    return [(sum(ys) / len(ys), text, paint) for (text, paint), ys in heights.items()]


class _Axis:
    """A linear or logarithmic map from values to pixels, with ticks at round numbers.

    The axis is extended at both ends by `pad`, a share of its range, but a linear axis of positive
    numbers not below zero, where it begins if all are equal. `ticks`: values of the ticks if these
    are not round numbers.
    """

    def __init__(
        self,
        values: Sequence[float],
        ends: tuple[float, float],
        scale: Scale,
        pad: float,
        ticks: Sequence[float] = (),
    ) -> None:
        self._scale = scale
        self._start, self._end = ends
        low = self._transform(min(values))
        high = self._transform(max(values))
        if high > low:
            room = (high - low) * pad
        else:
            room = 0.05 * abs(high) + (0.1 if scale == "log" else 1e-9)
        self._low = low - room
        self._high = high + room
        is_level = low == high > 0
        if scale == "linear" and pad and (is_level or low >= 0 > self._low):
            self._low = 0.0
        if ticks:
            self.ticks = list(ticks)
        elif scale == "log":
            points = sorted(set(values))
            is_short = not pad and len(points) <= MAX_TICKS
            self.ticks = points if is_short else self._decades()
        else:
            self.ticks = self._even_ticks()

    def at(self, value: float) -> float:
        """Return the position of a value in pixels."""
        share = (self._transform(value) - self._low) / (self._high - self._low)
        return self._start + (self._end - self._start) * share

    def _transform(self, value: float) -> float:
        return math.log10(value) if self._scale == "log" else value

    def _even_ticks(self) -> list[float]:
        """Return four to eight multiples of 1, 2 or 5 times a power of ten."""
        span = self._high - self._low
        power = 10.0 ** math.floor(math.log10(span / 4))
        factors = (1, 2, 5, 10)
        step = power * next(f for f in factors if span / (power * f) <= MAX_TICKS)
        first = math.ceil(self._low / step - 1e-9)
        last = math.floor(self._high / step + 1e-9)
        return [n * step for n in range(first, last + 1)]

    def _decades(self) -> list[float]:
        """Return the powers of ten in range; if there are fewer than three, also multiples of
        them.
        """
        exponents = range(math.floor(self._low), math.ceil(self._high) + 1)
        ticks: list[float] = []
        for factors in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7), range(1, 10)):
            multiples = [factor * 10.0**e for e in exponents for factor in factors]
            ticks = [x for x in multiples if self._low <= math.log10(x) <= self._high]
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
    """Draw a series as a line, with error bars, and with markers if it does not have too many
    points.

    `look`: number of its colour and marker, and width of its line; a thin line is all that is drawn
    of one seed among several. `offset`: shift along x in pixels.
    """
    number, width = look
    points = [(x_axis.at(x) + offset, y_axis.at(y)) for x, y in series.points]
    paint = f"t{number}" if width == THIN else f"s{number}"
    if len(points) > 1:
        yield Polyline(tuple(points), paint, width)
    if width == THIN:
        return

    has_markers = len(points) <= MAX_MARKERS * series.every
    marker_step = -(-len(points) // MEAN_MARKERS) if width == THICK else series.every
    for i, (x, y) in enumerate(points):
        x_value, y_value = series.points[i]
        x_label = categories[round(x_value)] if categories else _short(x_value)
        hint = f"{series.name}: {_short(y_value)} at {x_label}"
        if series.band is not None:
            low_value, high_value = series.band[i]
            low = y_axis.at(low_value)
            high = y_axis.at(high_value)
            yield Polyline(((x, low), (x, high)), paint, 1.5)
            yield Polyline(((x - 4, low), (x + 4, low)), paint, 1.5)
            yield Polyline(((x - 4, high), (x + 4, high)), paint, 1.5)
            hint += f", {_short(low_value)} to {_short(high_value)}"
        if has_markers and i % marker_step == 0:
            yield Polyline(_marker(number, x, y), paint, hint=hint)


def _short(value: float) -> str:
    """Format a number with four significant digits, or with thousands separators."""
    for least, letter in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= least:
            return f"{value / least:.4g}{letter}".replace("-", "−")
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}").replace("-", "−")


def _marker(number: int, x: float, y: float) -> tuple[tuple[float, float], ...]:
    """Return the corners of marker `number` around a point."""
    corners, turn, size = SHAPES[number]
    angles = (math.radians(turn + 360 * corner / corners) for corner in range(corners))
    return tuple(
        (x + MARKER * size * math.cos(angle), y + MARKER * size * math.sin(angle))
        for angle in angles
    )


def _end_labels(ends: list[tuple[float, str, int]], x: float) -> tuple[Mark, ...]:
    """Write labels (y, text, paint) with their markers at the ends of lines, moved apart so that
    they do not overlap.
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


def _names_differ(chart: Chart) -> bool:
    """Return True if series of several names have one colour, which one legend would mix up."""
    names = {
        (paint, series.name)
        for panel in chart.panels
        for series, paint in zip(panel.series, panel.paints(), strict=True)
        if panel.end_label(series)
    }
    return len(dict(names)) < len(names)


def _panel_legends(
    chart: Chart, top: float, step: float, width: float
) -> Iterator[Group]:
    """Write the names of the series of each panel on the line of its title, at the right edge; that
    of a single one is told by the title.
    """
    for number, panel in enumerate(chart.panels):
        if len(panel.series) == 1:
            continue
        y = top + number * step - 10
        x = width - MARGIN
        marks: list[Mark] = []
        lines = zip(panel.series, panel.paints(), strict=True)
        for series, paint in reversed(list(lines)):
            if panel.end_label(series):
                x -= measure(series.name, SIZE) + 22
                marker = _marker(paint, x + 6, y - MIDLINE * SIZE)
                marks.append(Polyline(marker, f"s{paint}"))
                marks.append(Text(x + 16, y, series.name, SIZE))
        yield Group(f"legend-{number}", tuple(marks))


def _legend(chart: Chart, top: float, width: float) -> tuple[tuple[Mark, ...], float]:
    """Return the names of all series, but those that repeat the title of their panel, with their
    markers, in as many rows as they need, and the bottom of the last row.
    """
    numbers = dict[str, int]()
    for panel in chart.panels:
        for series, paint in zip(panel.series, panel.paints(), strict=True):
            if panel.end_label(series):
                numbers[series.name] = paint
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
    sentences = []
    for panel in chart.panels:
        texts = []
        for series in panel.series:
            first = _short(series.points[0][1])
            last = _short(series.points[-1][1])
            text = f"{series.name} from {first} to {last} {series.label}"
            texts.append(text.strip())
        sentences.append(f"{panel.title} by {panel.x_label}: {'; '.join(texts)}")
    return ". ".join(sentences) + "."
