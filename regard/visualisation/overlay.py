"""A caption over its picture: what each word looked at, one small picture a word.

All that a word did not look at lies under a dark veil, so that what it did look at keeps its own colours, bright on
dark, which everyone can tell apart; the strongest cell is outlined. T words, Y × X pixels, a grid of rows × columns.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from regard.attention.alignment import cell_edges
from regard.errors import UsageError
from regard.visualisation.fonts import elide, measure, wrap
from regard.visualisation.layout import ASCENT, LINE_HEIGHT, Box, Figure, Group, Mark, Photo, Text, text_lines
from regard.visualisation.text import clean, isolated

__all__ = ["DENSITY", "VEIL", "Overlay", "SourceImage", "layout_overlay", "veiled"]

VEIL, DENSITY = (14, 17, 22), 0.78  # the veil's colour, and how much it hides where nothing was looked at
MARGIN, GAP = 18.0, 14.0
LONGER = 150.0  # pixels of the longer side of a panel
LABEL, TITLE_SIZE, CAPTION_SIZE, LEGEND_SIZE = 14.0, 16.0, 12.0, 11.0
ACROSS = 6  # panels in a row
FINE = 8  # squares of the veil a side of a cell, where cells at the edge are narrower or wider
LARGEST, SMALL = 480, 200  # pixels of the picture that is kept; up to which nothing of it is lost
LEGEND = ("not looked at", "where it looked most")


@dataclass(frozen=True, eq=False)
class SourceImage:
    """A picture as a model read it: its pixels, and the grid of cells over them.

    `middle` is where in its square a cell looks, in shares of a side: half-way, unless the network begins at a corner.
    `reach` is how much of the height and width the cells come to together: more than 1 where the last ones hang over.
    """

    pixels: np.ndarray  # (Y, X, 3) bytes
    grid: tuple[int, int]  # rows, columns
    cell_centre: float = 0.5
    cell_extent: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        pixels = np.asarray(self.pixels)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape or pixels.dtype != np.uint8:
            raise UsageError(f"a picture is (Y, X, 3) bytes; got {pixels.dtype} of shape {pixels.shape}")
        if min(self.grid) < 1:
            raise UsageError(f"a grid has at least one row and one column; got {self.grid}")
        if not 0 <= self.cell_centre <= 1:
            raise UsageError(f"the middle of a cell is a share of its side, from 0 to 1; got {self.cell_centre}")
        if min(self.cell_extent) < 1:
            raise UsageError(f"cells come to a whole picture at least; got {self.cell_extent} of its height and width")

    def file(self) -> bytes:
        """The picture for a reader: PNG while it is small, else JPEG of no more pixels than a screen shows."""
        image, file = Image.fromarray(self.pixels), io.BytesIO()
        if max(image.size) <= SMALL:
            image.save(file, "PNG", optimize=True)
        else:
            image.thumbnail((LARGEST, LARGEST))
            image.save(file, "JPEG", quality=88)
        return file.getvalue()

    def size(self, longer: float) -> tuple[float, float]:
        """Width and height of a panel whose longer side is given."""
        Y, X = self.pixels.shape[:2]
        return longer * X / max(Y, X), longer * Y / max(Y, X)

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Where columns of cells begin and the last ends, and rows, in shares of the picture."""
        rows, columns = self.grid
        return cell_edges(columns, self.cell_centre, self.cell_extent[1]), cell_edges(
            rows, self.cell_centre, self.cell_extent[0]
        )

    def cells(self) -> tuple[str, ...]:
        """The names of its cells, row by row: 1·1, 1·2, …"""
        rows, columns = self.grid
        return tuple(f"{row + 1}·{column + 1}" for row in range(rows) for column in range(columns))


@dataclass(frozen=True, eq=False)
class Overlay:
    """A caption and what each of its words looked at."""

    image: SourceImage
    words: tuple[str, ...]  # T
    maps: np.ndarray  # (T, rows, columns): weights, of each word one at most in sum
    title: str = ""  # else the caption
    caption: str = ""

    def __post_init__(self) -> None:
        maps: Any = np.asarray(self.maps, dtype=np.float64)
        wanted = (len(self.words), *self.image.grid)
        if not self.words or maps.shape != wanted:
            raise UsageError(
                f"wanted weights (words, rows, columns) of shape {wanted}, at least one word; got {maps.shape}"
            )
        if not (np.isfinite(maps).all() and maps.min() >= -1e-6):
            raise UsageError("weights must be finite and not negative")
        object.__setattr__(self, "words", tuple(clean(word) for word in self.words))
        object.__setattr__(self, "maps", maps.clip(min=0))
        object.__setattr__(self, "title", clean(self.title) or " ".join(self.words))
        object.__setattr__(self, "caption", clean(self.caption))


def veiled(seen: SourceImage, weights: np.ndarray, x: float, y: float, longer: float, hint: str = "") -> Iterator[Mark]:
    """A picture under the veil of one map, brightest where it is strongest, with that cell outlined."""
    width, height = seen.size(longer)
    yield Photo(x, y, width, height, seen.file(), hint=hint)
    yield Photo(x, y, width, height, _veil(_spread(weights, seen)), cells=True, hint=hint)
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    (left, right), (top, low) = (some[i : i + 2] for some, i in zip(seen.edges(), (column, row), strict=True))
    box = x + width * float(left), y + height * float(top), width * float(right - left), height * float(low - top)
    yield Box(*box, "link", hint, outline=2.0)
    if min(box[2:]) > 8:  # a line between, where the cell has the colour of its outline
        yield Box(box[0] + 2, box[1] + 2, box[2] - 4, box[3] - 4, "paper", hint, outline=1.0)


def _spread(weights: np.ndarray, seen: SourceImage) -> np.ndarray:
    """The weights as many small squares a cell, so that cells of unequal sizes can be told."""
    if seen.cell_centre == 0.5 and seen.cell_extent == (1.0, 1.0):
        return weights
    across, down = (np.diff(np.rint(FINE * (len(some) - 1) * some).astype(int)) for some in seen.edges())
    return weights.repeat(down, 0).repeat(across, 1)


def _veil(weights: np.ndarray) -> bytes:
    """A PNG file of one pixel a cell: the less was looked at it, the denser."""
    share = weights / max(float(weights.max()), 1e-12)
    pixels = np.empty((*weights.shape, 4), np.uint8)
    pixels[..., :3] = VEIL
    pixels[..., 3] = np.rint(255 * DENSITY * (1 - share))
    file = io.BytesIO()
    Image.fromarray(pixels, "RGBA").save(file, "PNG")
    return file.getvalue()


def layout_overlay(overlay: Overlay) -> Figure:
    """The picture itself, then one for each word in the order of the caption, in rows."""
    width, height = overlay.image.size(LONGER)
    panels = len(overlay.words) + 1
    across = min(ACROSS, panels)
    step_x, step_y = max(width, LONGER * 0.75) + GAP, height + LABEL * LINE_HEIGHT + GAP
    right = MARGIN + across * step_x - GAP
    right = max(right, MARGIN + _legend_width())
    header = _header(overlay, right - MARGIN)
    top = MARGIN + sum(LINE_HEIGHT * line.size for line in header) + 10
    groups = [Group("header", header)]
    for number in range(panels):
        row, column = divmod(number, across)
        x, y = MARGIN + column * step_x, top + row * step_y
        marks = _panel(overlay, number - 1, x, y, step_x - GAP) if number else _original(overlay.image, x, y)
        groups.append(Group(f"word-{number}" if number else "picture", tuple(marks)))
    below = top + -(-panels // across) * step_y
    groups.append(Group("legend", tuple(_legend(MARGIN, below))))
    size = math.ceil(right + MARGIN), math.ceil(below + LEGEND_SIZE * LINE_HEIGHT + MARGIN)
    paper = Group("paper", (Box(0.0, 0.0, float(size[0]), float(size[1]), "paper"),))
    return Figure(*size, (paper, *groups), overlay.title, _description(overlay))


def _header(overlay: Overlay, limit: float) -> tuple[Text, ...]:
    title = text_lines(wrap(overlay.title, TITLE_SIZE, limit), MARGIN, MARGIN, TITLE_SIZE, "ink")
    below = MARGIN + LINE_HEIGHT * TITLE_SIZE * len(title)
    return title + text_lines(wrap(overlay.caption, CAPTION_SIZE, limit), MARGIN, below, CAPTION_SIZE, "muted")


def _original(seen: SourceImage, x: float, y: float) -> Iterator[Mark]:
    width, height = seen.size(LONGER)
    yield Photo(x, y + LABEL * LINE_HEIGHT, width, height, seen.file())


def _panel(overlay: Overlay, word: int, x: float, y: float, room: float) -> Iterator[Mark]:
    """The word above what it looked at, and beside it the weight of the outlined cell."""
    weights, text = overlay.maps[word], overlay.words[word]
    most = f"{weights.max():.2f}"
    shown = elide(text, LABEL, room - measure(most, LEGEND_SIZE) - 8)
    yield Text(x, y + ASCENT * LABEL, shown, LABEL, "ink", hint=text if shown != text else "")
    width, _ = overlay.image.size(LONGER)
    yield Text(max(x + width, x + room), y + ASCENT * LABEL, most, LEGEND_SIZE, "muted", "end")
    hint = f"{isolated(text)} {most}"
    yield from veiled(overlay.image, weights, x, y + LABEL * LINE_HEIGHT, LONGER, hint)


BAR, STEPS = 90.0, 15


def _legend(left: float, top: float) -> Iterator[Mark]:
    """The veil, from dense to none over a light and a dark ground, and the sign for the strongest cell."""
    size = LEGEND_SIZE
    baseline = top + ASCENT * size
    words = [Text(left, baseline, LEGEND[0], size, "muted")]
    bar = max(x for x, _ in words[0].corners()) + 8
    ground = np.full((2, 1, 3), 235, np.uint8)
    ground[1] = 120
    file = io.BytesIO()
    Image.fromarray(ground).save(file, "PNG")
    yield Photo(bar, top + 1, BAR, 12.0, file.getvalue(), cells=True)
    yield Photo(bar, top + 1, BAR, 12.0, _veil(np.linspace(0, 1, STEPS)[None]), cells=True)
    words.append(Text(bar + BAR + 8, baseline, LEGEND[1], size, "muted"))
    sign = max(x for x, _ in words[1].corners()) + 18
    yield Box(sign, top, 13.0, 13.0, "link", outline=2.0)
    words.append(Text(sign + 19, baseline, "the strongest cell; its weight stands beside the word", size, "muted"))
    yield from words


def _legend_width() -> float:
    return max(x for mark in _legend(0.0, 0.0) if isinstance(mark, Text) for x, _ in mark.corners())


def _description(overlay: Overlay) -> str:
    """Where each word looked most."""
    rows, columns = overlay.image.grid
    told = [_told(word, weights) for word, weights in zip(overlay.words, overlay.maps, strict=True)]
    about = f"What each of {len(told)} words looked at in a picture of {rows} rows and {columns} columns of cells."
    return f"{about} Strongest: {'; '.join(told)}."


def _told(word: str, weights: np.ndarray) -> str:
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    return f"{isolated(word)} row {row + 1}, column {column + 1}, {weights.max():.2f}"
