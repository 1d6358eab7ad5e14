"""What a picture is made of, before any format: boxes, lines, texts and photos at places, in named groups.

Positions are in pixels from the top left corner. A figure is laid out once, as a `Picture`; SVG, PNG and the HTML page
draw the same one, so they cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from regard.visualisation.fonts import measure

__all__ = ["Anchor", "Box", "Figure", "Group", "Line", "Mark", "Photo", "Text", "text_lines"]

Anchor = Literal["start", "middle", "end"]

ASCENT, DESCENT = 0.95, 0.25  # of a text's size: room for accents above and tails below the baseline
MIDDLE = 0.36  # of a text's size: how far the eye's middle of a line lies above the baseline
LINE_HEIGHT = 1.35


@dataclass(frozen=True)
class Box:
    """A rectangle: filled, or where `outline` is a line width, drawn round."""

    x: float
    y: float
    width: float
    height: float
    paint: str
    hint: str = ""  # shown when pointed at
    outline: float = 0.0


@dataclass(frozen=True)
class Line:
    """Points joined by straight lines, `width` thick; with a width of nought, the shape that they enclose, filled."""

    points: tuple[tuple[float, float], ...]
    paint: str
    width: float = 0.0
    hint: str = ""


@dataclass(frozen=True)
class Text:
    """One line of text, anchored on its baseline and turned counter-clockwise about that anchor, in degrees."""

    x: float
    y: float
    text: str
    size: float
    paint: str = "ink"
    anchor: Anchor = "start"
    turn: float = 0.0
    hint: str = ""

    def corners(self) -> tuple[tuple[float, float], ...]:
        """The four corners of the room reserved for it."""
        width = measure(self.text, self.size)
        left = {"start": 0.0, "middle": -width / 2, "end": -width}[self.anchor]
        top, bottom = -ASCENT * self.size, DESCENT * self.size
        return tuple(self._turned(along, down) for along in (left, left + width) for down in (top, bottom))

    def _turned(self, along: float, down: float) -> tuple[float, float]:
        cos, sin = math.cos(math.radians(self.turn)), math.sin(math.radians(self.turn))
        return self.x + along * cos + down * sin, self.y - along * sin + down * cos


@dataclass(frozen=True)
class Photo:
    """Pixels of their own colours, the same in light and dark, stretched over a rectangle.

    `content` is a PNG or JPEG file, perhaps with an opacity. `cells`: its pixels stay sharp squares.
    """

    x: float
    y: float
    width: float
    height: float
    content: bytes
    cells: bool = False
    hint: str = ""
    paint: str = "photo"


Mark: TypeAlias = Box | Line | Photo | Text


@dataclass(frozen=True)
class Group:
    """Marks that belong together, under a name which SVG keeps as a class."""

    name: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Figure:
    """A laid-out figure."""

    width: int
    height: int
    groups: tuple[Group, ...]
    title: str
    description: str  # what a screen reader says of it

    def marks(self) -> Iterator[Mark]:
        """All marks, in the order in which they are painted."""
        for group in self.groups:
            yield from group.marks


def text_lines(lines: list[str], x: float, top: float, size: float, paint: str) -> tuple[Text, ...]:
    """Lines of text below one another, the first one's top at `top`."""
    return tuple(
        Text(x, top + size * (ASCENT + LINE_HEIGHT * number), line, size, paint) for number, line in enumerate(lines)
    )
