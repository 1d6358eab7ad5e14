"""Figures independent of any file format: boxes, lines, texts and rasters in named groups.

Coordinates are pixels from the top left corner. A figure is laid out once, as a `Figure`; SVG, PNG,
GIF and HTML are all rendered from it, so that they show the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from regard.visualisation.fonts import measure, wrap

Anchor = Literal["start", "middle", "end"]

# Shares of a text's size:
ASCENT = 0.95  # room for accents above the baseline
DESCENT = 0.25  # room for descenders below the baseline
MIDLINE = 0.36  # distance from the baseline up to the optical centre of a line
LINE_HEIGHT = 1.35

MARGIN = 18.0  # pixels around a figure
TITLE_SIZE = 16.0
CAPTION_SIZE = 12.0


@dataclass(frozen=True)
class Box:
    """A filled rectangle; if `outline` is not zero, only its frame, drawn inside the rectangle with
    that line width.
    """

    x: float
    y: float
    width: float
    height: float
    paint: str
    hint: str = ""  # tooltip
    outline: float = 0.0


@dataclass(frozen=True)
class Polyline:
    """A polyline of the given width; with a width of zero, the filled polygon that the points
    enclose.
    """

    points: tuple[tuple[float, float], ...]
    paint: str
    width: float = 0.0
    hint: str = ""


@dataclass(frozen=True)
class Text:
    """One line of text, anchored on its baseline and rotated counter-clockwise about that anchor,
    in degrees.
    """

    x: float
    y: float
    text: str
    size: float
    paint: str = "ink"
    anchor: Anchor = "start"
    turn: float = 0.0
    hint: str = ""

    def corners(self) -> tuple[tuple[float, float], ...]:
        """Return the four corners of the rectangle reserved for the text."""
        width = measure(self.text, self.size)
        left = {"start": 0.0, "middle": -width / 2, "end": -width}[self.anchor]
        top = -ASCENT * self.size
        bottom = DESCENT * self.size
        return tuple(
            self._rotate(along, down)
            for along in (left, left + width)
            for down in (top, bottom)
        )

    def _rotate(self, along: float, down: float) -> tuple[float, float]:
        cos = math.cos(math.radians(self.turn))
        sin = math.sin(math.radians(self.turn))
        return self.x + along * cos + down * sin, self.y - along * sin + down * cos


@dataclass(frozen=True)
class Raster:
    """A PNG or JPEG file stretched over a rectangle, with the same colours in light and dark
    themes.

    `pixelated`: enlarge without smoothing, so that every pixel stays a sharp square.
    """

    x: float
    y: float
    width: float
    height: float
    content: bytes
    pixelated: bool = False
    hint: str = ""


Mark: TypeAlias = Box | Polyline | Raster | Text


@dataclass(frozen=True)
class Group:
    """Marks that belong together, under a name that SVG keeps as a class."""

    name: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Figure:
    """A complete drawing: its size in pixels and its marks in painting order."""

    width: int
    height: int
    groups: tuple[Group, ...]
    title: str
    description: str  # read by screen readers

    def marks(self) -> Iterator[Mark]:
        """Iterate over all marks in painting order."""
        for group in self.groups:
            yield from group.marks


def curve(
    start: tuple[float, float], end: tuple[float, float], steps: int
) -> tuple[tuple[float, float], ...]:
    """Return the points of an S-shaped curve."""
    (x1, y1), (x2, y2) = start, end
    shares = (n / steps for n in range(steps + 1))
    return tuple(
        (x1 + (x2 - x1) * s, y1 + (y2 - y1) * (3 - 2 * s) * s * s) for s in shares
    )


def arrow(
    start: tuple[float, float], end: tuple[float, float], paint: str, width: float = 1.0
) -> Iterator[Polyline]:
    """Draw a line with a tip at its end."""
    (x1, y1), (x2, y2) = start, end
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    dx = 5 * (x2 - x1) / length
    dy = 5 * (y2 - y1) / length
    yield Polyline((start, (x2 - dx, y2 - dy)), paint, width)
    dx = dx * width**0.5
    dy = dy * width**0.5
    yield Polyline(
        (
            end,
            (x2 - dx - dy / 2, y2 - dy + dx / 2),
            (x2 - dx + dy / 2, y2 - dy - dx / 2),
        ),
        paint,
    )


def right_edge(marks: Iterable[Mark]) -> float:
    """Return how far to the right the texts among marks reach."""
    return max(
        (x for mark in marks if isinstance(mark, Text) for x, _ in mark.corners()),
        default=0.0,
    )


def make_figure(
    width: float, height: float, groups: Sequence[Group], title: str, description: str
) -> Figure:
    """Put groups on paper; width and height are rounded up to whole pixels."""
    columns = math.ceil(width)
    rows = math.ceil(height)
    paper = Group("paper", (Box(0.0, 0.0, float(columns), float(rows), "paper"),))
    return Figure(columns, rows, (paper, *groups), title, description)


def header_lines(
    title: str, caption: str, limit: float
) -> tuple[tuple[Text, ...], float]:
    """Lay out a title and a caption at the top left, wrapped to `limit` pixels; return their lines
    and their height.
    """
    lines = list[Text]()
    top = MARGIN
    for text, size, paint in (
        (title, TITLE_SIZE, "ink"),
        (caption, CAPTION_SIZE, "muted"),
    ):
        for line in wrap(text, size, limit):
            lines.append(Text(MARGIN, top + size * ASCENT, line, size, paint))
            top += size * LINE_HEIGHT
    return tuple(lines), sum((LINE_HEIGHT * line.size for line in lines), 0.0)
