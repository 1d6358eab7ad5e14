"""Attention over an image: for each word of a caption, the image with the attention map of that
word over it.

A dark veil covers cells with little weight, so that attended cells keep their own colours, bright
on dark, which everyone can tell apart; the cell with the largest weight is outlined. T words, Y × X
pixels, a grid of rows × columns.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from regard.attention.alignment import cell_edges, cell_names
from regard.common.errors import UsageError
from regard.visualisation import figure as drawing
from regard.visualisation.colours import OPACITY, VEIL
from regard.visualisation.figure import (
    ASCENT,
    LINE_HEIGHT,
    MARGIN,
    Box,
    Figure,
    Group,
    Mark,
    Raster,
    Text,
)
from regard.visualisation.fonts import elide, measure
from regard.visualisation.language import words
from regard.visualisation.text import clean, isolated

GAP = 14.0  # pixels between two panels
PANEL = 150.0  # pixels of the longer side of a panel
LABEL = 14.0  # text size of a word
LEGEND_SIZE = 11.0  # text size of the legend
COLUMNS = 4  # panels in a row, which fit the column of a page
PICTURE = 260.0  # pixels of the longer side of an image that is shown alone
EDGE = 1.0  # pixels around a panel that is a figure of its own, for half of an outline
CELL_PIXELS = 8  # veil pixels per side of a cell, if cells at the edges differ in size
LARGEST = 480  # pixels of the longer side of an embedded image
# An image with a longer side of at most so many pixels is embedded as PNG.
LOSSLESS = 200
LEGEND = (
    "no weight",
    "largest weight",
    "cell with the largest weight, which is given beside the word",
)


@dataclass(frozen=True, eq=False)
class SourceImage:
    """An image as the model sees it: pixels, and the grid of cells that attention weights refer to.

    `cell_centre`: the point that a cell stands for, as a share of its side from its upper left
    corner. `cell_extent`: height and width of all cells together, as a share of the image; more
    than 1 if the last cells hang over the edge.
    """

    pixels: np.ndarray  # (Y, X, 3) bytes
    grid: tuple[int, int]  # rows, columns
    cell_centre: float = 0.5
    cell_extent: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        pixels = np.asarray(self.pixels)
        if (
            pixels.ndim != 3
            or pixels.shape[2] != 3
            or 0 in pixels.shape
            or pixels.dtype != np.uint8
        ):
            raise UsageError(
                f"an image is (Y, X, 3) bytes; got {pixels.dtype} of shape {pixels.shape}"
            )
        if min(self.grid) < 1:
            raise UsageError(
                f"a grid has at least one row and one column; got {self.grid}"
            )
        if not 0 <= self.cell_centre <= 1:
            raise UsageError(
                f"cell_centre is a share of a cell's side, from 0 to 1; got {self.cell_centre}"
            )
        if min(self.cell_extent) < 1:
            raise UsageError(
                f"cells cover the whole image at least; got {self.cell_extent} of its height and "
                "width"
            )

    def file(self) -> bytes:
        """Encode the image for embedding: as PNG if it is small, else as JPEG of at most 480 pixels
        a side.
        """
        image = Image.fromarray(self.pixels)
        file = io.BytesIO()
        if max(image.size) <= LOSSLESS:
            image.save(file, "PNG", optimize=True)
        else:
            image.thumbnail((LARGEST, LARGEST))
            image.save(file, "JPEG", quality=88)
        return file.getvalue()

    def size(self, longer: float) -> tuple[float, float]:
        """Return the width and height at which the image has this longer side."""
        Y, X = self.pixels.shape[:2]
        return longer * X / max(Y, X), longer * Y / max(Y, X)

    def edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the edges of columns (columns + 1) and of rows (rows + 1), as shares of width and
        height.
        """
        rows, columns = self.grid
        height, width = self.cell_extent
        column_edges = cell_edges(columns, self.cell_centre, width)
        row_edges = cell_edges(rows, self.cell_centre, height)
        return column_edges, row_edges

    def cells(self) -> tuple[str, ...]:
        """Return the names of the cells, row by row: 1·1, 1·2, …"""
        return cell_names(*self.grid)


@dataclass(frozen=True, eq=False)
class Overlay:
    """An image, the words of its caption, and the attention map of each word."""

    image: SourceImage
    words: tuple[str, ...]  # T
    maps: np.ndarray  # (T, rows, columns); the weights of a word sum to one at most
    title: str = ""  # if empty, the words
    caption: str = ""

    def __post_init__(self) -> None:
        maps: Any = np.asarray(self.maps, dtype=np.float64)
        shape = (len(self.words), *self.image.grid)
        if not self.words or maps.shape != shape:
            wanted = f"wanted weights (words, rows, columns) of shape {shape}, at least one word"
            raise UsageError(f"{wanted}; got {maps.shape}")
        if not (np.isfinite(maps).all() and maps.min() >= -1e-6):
            raise UsageError("weights must be finite and not negative")
        object.__setattr__(self, "words", tuple(clean(word) for word in self.words))
        object.__setattr__(self, "maps", maps.clip(min=0))
        object.__setattr__(self, "title", clean(self.title) or " ".join(self.words))
        object.__setattr__(self, "caption", clean(self.caption))


def veiled(
    image: SourceImage,
    weights: np.ndarray,
    x: float,
    y: float,
    longer: float,
    hint: str = "",
) -> Iterator[Mark]:
    """Draw an image under the veil of one attention map (rows, columns), and outline the cell with
    the largest weight.
    """
    width, height = image.size(longer)
    veil = _veil(_resampled(weights, image))
    yield Raster(x, y, width, height, image.file(), hint=hint)
    yield Raster(x, y, width, height, veil, pixelated=True, hint=hint)

    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    column_edges, row_edges = image.edges()
    left, right = column_edges[column : column + 2]
    top, bottom = row_edges[row : row + 2]
    cell_x = x + width * float(left)
    cell_y = y + height * float(top)
    cell_width = width * float(right - left)
    cell_height = height * float(bottom - top)
    yield Box(cell_x, cell_y, cell_width, cell_height, "link", hint, outline=2.0)
    if min(cell_width, cell_height) > 8:
        # An inner line keeps the outline visible on a cell of the same colour.
        inner = (cell_x + 2, cell_y + 2, cell_width - 4, cell_height - 4)
        yield Box(*inner, "paper", hint, outline=1.0)


def _resampled(weights: np.ndarray, image: SourceImage) -> np.ndarray:
    """Repeat the weights on a finer grid if cells have unequal sizes."""
    if image.cell_centre == 0.5 and image.cell_extent == (1.0, 1.0):
        return weights
    column_edges, row_edges = image.edges()
    columns = _cell_pixels(column_edges)
    rows = _cell_pixels(row_edges)
    return weights.repeat(rows, 0).repeat(columns, 1)


def _cell_pixels(edges: np.ndarray) -> np.ndarray:
    """Return the number of veil pixels of each row or column of cells."""
    return np.diff(np.rint(CELL_PIXELS * (len(edges) - 1) * edges).astype(int))


def _veil(weights: np.ndarray) -> bytes:
    """Return a PNG of one pixel per cell: the smaller the weight, the more opaque."""
    shares = weights / max(float(weights.max()), 1e-12)
    pixels = np.empty((*weights.shape, 4), np.uint8)
    pixels[..., :3] = VEIL
    pixels[..., 3] = np.rint(255 * OPACITY * (1 - shares))
    file = io.BytesIO()
    Image.fromarray(pixels, "RGBA").save(file, "PNG")
    return file.getvalue()


def layout_overlay(overlay: Overlay) -> Figure:
    """Lay out the image, and after it a panel for each word of the caption, in rows."""
    width, height = overlay.image.size(PANEL)
    panels = len(overlay.words) + 1
    columns = min(COLUMNS, panels)
    step_x = max(width, PANEL * 0.75) + GAP
    step_y = height + LABEL * LINE_HEIGHT + GAP
    right = max(
        MARGIN + columns * step_x - GAP, MARGIN + drawing.right_edge(_legend(0.0, 0.0))
    )
    header, header_height = drawing.header_lines(
        overlay.title, overlay.caption, right - MARGIN
    )
    top = MARGIN + header_height + 10
    groups = [Group("header", header)]
    for number in range(panels):
        row, column = divmod(number, columns)
        x = MARGIN + column * step_x
        y = top + row * step_y
        if number == 0:
            content = overlay.image.file()
            image = Raster(x, y + LABEL * LINE_HEIGHT, width, height, content)
            groups.append(Group("image", (image,)))
        else:
            panel = _panel(overlay, number - 1, x, y, step_x - GAP)
            groups.append(Group(f"word-{number}", tuple(panel)))
    below = top + -(-panels // columns) * step_y
    groups.append(Group("legend", tuple(_legend(MARGIN, below))))
    bottom = below + LEGEND_SIZE * LINE_HEIGHT + MARGIN
    return drawing.make_figure(
        right + MARGIN, bottom, groups, overlay.title, _description(overlay)
    )


def layout_picture(image: SourceImage) -> Figure:
    """Lay out the image alone."""
    width, height = image.size(PICTURE)
    picture = Raster(0.0, 0.0, width, height, image.file())
    return drawing.make_figure(width, height, [Group("image", (picture,))], "Image", "")


def layout_word_panels(overlay: Overlay) -> Iterator[Figure]:
    """Lay out a figure for each word, for a page that puts as many side by side as have room."""
    width, height = overlay.image.size(PANEL)
    room = max(width, PANEL * 0.75)
    for word, text in enumerate(overlay.words):
        panel = tuple(_panel(overlay, word, EDGE, 0.0, room))
        yield drawing.make_figure(
            room + 2 * EDGE,
            height + LABEL * LINE_HEIGHT + EDGE,
            [Group("word", panel)],
            text,
            _largest_weight(overlay, word),
        )


def layout_legend() -> Figure:
    """Lay out the legend alone, for a page with many panels."""
    marks = tuple(_legend(EDGE, EDGE))
    return drawing.make_figure(
        drawing.right_edge(marks) + EDGE,
        LEGEND_SIZE * LINE_HEIGHT + EDGE,
        [Group("legend", marks)],
        "Legend",
        "; ".join(map(words, LEGEND)),
    )


def _panel(
    overlay: Overlay, word: int, x: float, y: float, room: float
) -> Iterator[Mark]:
    """Draw a word and its largest weight above its attention map."""
    weights = overlay.maps[word]
    text = overlay.words[word]
    largest = f"{weights.max():.2f}"
    label = elide(text, LABEL, room - measure(largest, LEGEND_SIZE) - 8)
    baseline = y + ASCENT * LABEL
    hint = text if label != text else ""
    yield Text(x, baseline, label, LABEL, "ink", hint=hint)
    width, _ = overlay.image.size(PANEL)
    right = max(x + width, x + room)
    yield Text(right, baseline, largest, LEGEND_SIZE, "muted", "end")
    hint = f"{isolated(text)} {largest}"
    yield from veiled(overlay.image, weights, x, y + LABEL * LINE_HEIGHT, PANEL, hint)


BAR = 90.0  # pixels: width of the scale in the legend
BAR_STEPS = 15  # shades of the scale


def _legend(left: float, top: float) -> Iterator[Mark]:
    """Draw the veil from opaque to clear over light and dark ground, and the outline of the cell
    with the largest weight.
    """
    size = LEGEND_SIZE
    baseline = top + ASCENT * LEGEND_SIZE
    texts = [Text(left, baseline, words(LEGEND[0]), size, "muted")]
    bar = drawing.right_edge(texts) + 8
    ground = np.full((2, 1, 3), 235, np.uint8)
    ground[1] = 120
    file = io.BytesIO()
    Image.fromarray(ground).save(file, "PNG")
    yield Raster(bar, top + 1, BAR, 12.0, file.getvalue(), pixelated=True)
    veil = _veil(np.linspace(0, 1, BAR_STEPS)[None])
    yield Raster(bar, top + 1, BAR, 12.0, veil, pixelated=True)
    texts.append(Text(bar + BAR + 8, baseline, words(LEGEND[1]), size, "muted"))
    outline = drawing.right_edge(texts) + 18
    yield Box(outline, top, 13.0, 13.0, "link", outline=2.0)
    texts.append(Text(outline + 19, baseline, words(LEGEND[2]), size, "muted"))
    yield from texts


def _description(overlay: Overlay) -> str:
    """Describe the cell with the largest weight for each word, for screen readers."""
    rows, columns = overlay.image.grid
    largest = [_largest_weight(overlay, word) for word in range(len(overlay.words))]
    text = (
        "Attention of {count} words over an image of {rows} rows and {columns} columns of cells. "
        "Largest: {largest}."
    )
    return words(
        text, count=len(largest), rows=rows, columns=columns, largest="; ".join(largest)
    )


def _largest_weight(overlay: Overlay, word: int) -> str:
    """Describe the cell with the largest weight for a word."""
    weights = overlay.maps[word]
    row, column = np.unravel_index(int(weights.argmax()), weights.shape)
    label = words("row {row}, column {column}", row=row + 1, column=column + 1)
    return f"{isolated(overlay.words[word])} {label}, {weights.max():.2f}"
