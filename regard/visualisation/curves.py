"""How one thing grows with another: lines in panels on logarithmic axes, where a power is a straight line.

Each line has a colour and a marker of its own, so that it is known without the colour; at its end stands its slope,
which is the exponent of growth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from regard.errors import UsageError
from regard.visualisation.colours import SERIES, THEMES, colour
from regard.visualisation.fonts import STACK, measure, wrap
from regard.visualisation.layout import ASCENT, LINE_HEIGHT, MIDDLE, Box, Figure, Group, Line, Mark, Text, text_lines
from regard.visualisation.rendering import draw_svg

__all__ = ["Curves", "LogSeries", "Panel", "curves_page", "layout_curves", "picture_page"]

MARGIN, GAP = 16.0, 26.0
WIDE, HIGH = 300.0, 210.0  # pixels of a panel's inside
LEFT, RIGHT, ABOVE, BELOW = 52.0, 44.0, 26.0, 40.0  # pixels around it
TITLE_SIZE, PANEL_SIZE, SIZE = 18.0, 14.0, 12.0
MARKER = 4.0


@dataclass(frozen=True)
class LogSeries:
    """One line: its points, and what stands at its end."""

    name: str
    points: tuple[tuple[float, float], ...]
    label: str = ""


@dataclass(frozen=True)
class Panel:
    """Lines over the same two axes."""

    title: str
    across: str
    series: tuple[LogSeries, ...]


@dataclass(frozen=True)
class Curves:
    """Panels with the same series, and what a page says below them, in columns."""

    panels: tuple[Panel, ...]
    title: str = ""
    caption: str = ""
    table: str = ""

    def __post_init__(self) -> None:
        causes = [] if self.panels else ["there is no panel to draw"]
        for panel in self.panels:
            if not panel.series or len(panel.series) > SERIES:
                causes.append(f"{panel.title}: a panel holds 1 to {SERIES} lines, got {len(panel.series)}")
            for line in panel.series:
                if not line.points or not all(0 < value < math.inf for point in line.points for value in point):
                    causes.append(f"{panel.title}, {line.name}: a logarithmic axis needs numbers above nought")
        if causes:
            raise UsageError(*causes)


def layout_curves(curves: Curves) -> Figure:
    """The panels two by two, with the names of all lines below."""
    columns = min(2, len(curves.panels))
    width = 2 * MARGIN + columns * (LEFT + WIDE + RIGHT) + (columns - 1) * GAP
    names = {line.name: number for panel in curves.panels for number, line in enumerate(panel.series)}
    header = _header(curves, width - 2 * MARGIN)
    top = MARGIN + sum(LINE_HEIGHT * line.size for line in header)
    groups = []
    for number, panel in enumerate(curves.panels):
        x = MARGIN + (number % columns) * (LEFT + WIDE + RIGHT + GAP) + LEFT
        y = top + (number // columns) * (ABOVE + HIGH + BELOW) + ABOVE
        groups += _panel(panel, x, y, number)
    rows = -(-len(curves.panels) // columns)
    legend, bottom = _legend(names, top + rows * (ABOVE + HIGH + BELOW) + 14, width)
    height = math.ceil(bottom + MARGIN)
    paper = Group("paper", (Box(0.0, 0.0, width, float(height), "paper"),))
    groups = [paper, Group("header", header), *groups, Group("legend", legend)]
    return Figure(math.ceil(width), height, tuple(groups), curves.title or "Curves", _description(curves))


def curves_page(curves: Curves) -> str:
    """The picture and its table as one page that fetches nothing."""
    return picture_page(layout_curves(curves), f"<pre>{escape(curves.table)}</pre>")


def picture_page(picture: Figure, below: str = "") -> str:
    """A picture as a page that fetches nothing, with some HTML below it."""
    light, dark = (f":root{{--paper:{colour('paper', theme)};--ink:{colour('ink', theme)}}}" for theme in THEMES)
    style = (
        f"{light}@media (prefers-color-scheme:dark){{{dark}}}body{{background:var(--paper);color:var(--ink);"
        f"font-family:{STACK};margin:1em}}svg{{max-width:100%;height:auto}}pre{{overflow-x:auto}}"
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'font-src data:; img-src data:">\n'
        f"<title>{escape(picture.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"{draw_svg(picture)}{below}\n</body>\n</html>\n"
    )


def _header(curves: Curves, limit: float) -> tuple[Text, ...]:
    title = text_lines(wrap(curves.title, TITLE_SIZE, limit), MARGIN, MARGIN, TITLE_SIZE, "ink")
    below = MARGIN + LINE_HEIGHT * TITLE_SIZE * len(title)
    return title + text_lines(wrap(curves.caption, SIZE, limit), MARGIN, below, SIZE, "muted")


def _panel(panel: Panel, x: float, y: float, number: int) -> list[Group]:
    across = _Axis([px for line in panel.series for px, _ in line.points], x, x + WIDE, marks_all=True)
    up = _Axis([py for line in panel.series for _, py in line.points], y + HIGH, y)
    title = Text(x, y - 10, panel.title, PANEL_SIZE)
    lattice = [Box(x, up.at(tick), WIDE, 1.0, "lattice") for tick in up.ticks]
    lattice += [Box(across.at(tick), y, 1.0, HIGH, "lattice") for tick in across.ticks]
    ticks = [Text(x - 8, up.at(t) + MIDDLE * SIZE, _short(t), SIZE, "muted", "end") for t in up.ticks]
    ticks += [Text(across.at(t), y + HIGH + 16, _short(t), SIZE, "muted", "middle") for t in across.ticks]
    ticks.append(Text(x + WIDE / 2, y + HIGH + 33, panel.across, SIZE, "muted", "middle"))
    lines: list[Mark] = []
    ends: list[tuple[float, str, str]] = []
    for place, line in enumerate(panel.series):
        points = tuple((across.at(px), up.at(py)) for px, py in line.points)
        lines.append(Line(points, f"s{place}", 2.0))
        for (px, py), at in zip(line.points, points, strict=True):
            hint = f"{line.name}: {_short(py)} at {_short(px)}"
            lines.append(Line(_marker(place, *at), f"s{place}", hint=hint))
        ends.append((points[-1][1], line.label, f"s{place}"))
    return [
        Group(f"lattice-{number}", tuple(lattice)),
        Group(f"axes-{number}", (title, *ticks)),
        Group(f"lines-{number}", tuple(lines)),
        Group(f"ends-{number}", _ends(ends, x + WIDE + 9)),
    ]


class _Axis:
    """A logarithmic axis from one place to another, and where its marks stand."""

    def __init__(self, values: Sequence[float], start: float, end: float, marks_all: bool = False) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        if not marks_all:
            low, high = low - 0.05 * (high - low) - 0.02, high + 0.05 * (high - low) + 0.02
        self.low, self.span = low, max(high - low, 1e-9)
        self.start, self.end = start, end
        self.ticks = sorted(set(values)) if marks_all else self._decades(low, high)

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * (math.log10(value) - self.low) / self.span

    @staticmethod
    def _decades(low: float, high: float) -> list[float]:
        """Powers of ten, or with twos and fives between them where these are few."""
        for steps in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
            exponents = range(math.floor(low), math.ceil(high) + 1)
            ticks = [step * 10.0**e for e in exponents for step in steps if low <= math.log10(step * 10.0**e) <= high]
            if len(ticks) >= 3:
                break
        return ticks


def _short(value: float) -> str:
    """A number in six characters or fewer."""
    for least, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= least:
            return f"{value / unit:.3g}{letter}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _marker(number: int, x: float, y: float) -> tuple[tuple[float, float], ...]:
    """A shape for each series: round, square, triangle, diamond, triangle upside down, hexagon."""
    corners, turn, size = [
        (16, 0.0, 1.0),
        (4, 45.0, 1.2),
        (3, -90.0, 1.3),
        (4, 0.0, 1.35),
        (3, 90.0, 1.3),
        (6, 0.0, 1.1),
    ][number]
    angles = (math.radians(turn + 360 * corner / corners) for corner in range(corners))
    return tuple((x + MARKER * size * math.cos(angle), y + MARKER * size * math.sin(angle)) for angle in angles)


def _ends(ends: list[tuple[float, str, str]], x: float) -> tuple[Text, ...]:
    """Labels at the ends of lines, moved apart where they would cover one another."""
    ends, step = sorted(ends), SIZE * 1.05
    places = [y for y, _, _ in ends]
    for _ in range(40):
        for above, below in pairwise(range(len(places))):
            lack = step - (places[below] - places[above])
            if lack > 0:
                places[above] -= lack / 2
                places[below] += lack / 2
    return tuple(
        Text(x, y + MIDDLE * SIZE, label, SIZE, paint)
        for y, (_, label, paint) in zip(places, ends, strict=True)
        if label
    )


def _legend(names: dict[str, int], top: float, width: float) -> tuple[tuple[Mark, ...], float]:
    """The names of the lines with their markers, in as many rows as they need, and where the last one ends."""
    marks: list[Mark] = []
    x, row = MARGIN + LEFT, LINE_HEIGHT * SIZE * 1.2
    for name, number in names.items():
        room = 26 + measure(name, SIZE) + 12
        if x + room > width - MARGIN and x > MARGIN + LEFT:
            x, top = MARGIN + LEFT, top + row
        marks.append(Line(((x - 10, top), (x + 10, top)), f"s{number}", 2.0))
        marks.append(Line(_marker(number, x, top), f"s{number}"))
        marks.append(Text(x + 17, top + MIDDLE * SIZE, name, SIZE))
        x += room
    return tuple(marks), top + (1 - ASCENT / 2) * row


def _description(curves: Curves) -> str:
    told = (
        f"{panel.title} by {panel.across}: "
        + "; ".join(f"{s.name} {_short(s.points[-1][1])} {s.label}".strip() for s in panel.series)
        for panel in curves.panels
    )
    return ". ".join(told) + "."
