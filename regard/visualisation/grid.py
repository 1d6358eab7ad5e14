"""Where the cells and labels of a heatmap go, at 1 word as at 80: sizes, and the turn of the labels.

T rows (target words), S columns (source words).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.visualisation.fonts import elide, measure
from regard.visualisation.layout import LINE_HEIGHT, MIDDLE, Text

__all__ = ["END", "Grid", "labels_above", "labels_beside", "place_grid"]

END = "(end)"  # label of the thin column for what was read from the end of the sentence
GAP = 8.0  # between a label and the grid
SIDE = 720.0  # pixels a grid tends to, before its cells reach their bounds
SMALLEST, LARGEST = 13.0, 44.0  # pixels, side of a cell
WIDEST = 80.0  # pixels a column may stretch to, so that its label can lie flat
NUMBERS_FROM = 40  # pixels: cells this high hold their weight in digits
LONGEST = 46.0  # ems: forty Hangul syllables. A longer word is elided, and whole in the hint
AXES = ("source →", "target ↓")
AXES_SIZE = 11.0


@dataclass(frozen=True)
class Grid:
    """T rows, S columns, and perhaps a thin column for the end of the sentence."""

    left: float
    top: float
    cell_width: float
    cell_height: float
    columns: int
    rows: int
    font: float
    turn: float  # of the labels over the columns, in degrees
    end: tuple[float, float] | None  # left and width of the thin column

    @property
    def right(self) -> float:
        return self.left + self.columns * self.cell_width

    @property
    def bottom(self) -> float:
        return self.top + self.rows * self.cell_height

    @property
    def far_right(self) -> float:
        return self.right if self.end is None else sum(self.end)

    @property
    def has_numbers(self) -> bool:
        return self.cell_height >= NUMBERS_FROM

    def cell(self, t: int, s: int) -> tuple[float, float, float, float]:
        """x, y, width, height, without the hairline between cells."""
        x, y = self.left + s * self.cell_width, self.top + t * self.cell_height
        return x + 1, y + 1, self.cell_width - 1, self.cell_height - 1

    def end_cell(self, t: int) -> tuple[float, float, float, float]:
        """The same for row t of the thin column."""
        assert self.end is not None, "this grid has no column for the end of the sentence"
        x, width = self.end
        return x + 1, self.top + t * self.cell_height + 1, width - 1, self.cell_height - 1


def place_grid(source: Sequence[str], target: Sequence[str], has_end: bool, margin: float) -> Grid:
    """A grid for these words, as near to the top left corner as margin and labels allow."""
    height = min(LARGEST, max(SMALLEST, SIDE // max(len(source), len(target))))
    font = min(14.0, max(10.0, 0.72 * height))
    widest = max(measure(label, font) for label in _shown(source, font))
    flat = float(math.ceil(widest + GAP))
    is_flat = flat <= WIDEST and flat * len(source) <= 1.2 * SIDE
    width = max(height, flat) if is_flat else height
    beside = max(measure(label, font) for label in _shown(target, font))
    left = float(math.ceil(margin + GAP + max(beside, *(measure(name, AXES_SIZE) for name in AXES))))
    right = left + width * len(source)
    end = _end_column(right, height, font, is_flat) if has_end else None
    grid = Grid(left, 0.0, width, height, len(source), len(target), font, 0.0 if is_flat else _turn(height, font), end)
    return replace(grid, top=float(math.ceil(margin + _height_above(grid, source))))


def _shown(words: Sequence[str], font: float) -> list[str]:
    return [elide(word, font, LONGEST * font) for word in words]


def _turn(cell: float, font: float) -> float:
    """Slanted labels are easier to read, upright ones stand closer."""
    return 45.0 if cell * math.sin(math.radians(45)) >= 1.2 * font else 90.0


def _end_column(right: float, height: float, font: float, is_flat: bool) -> tuple[float, float]:
    width = max(8.0, float(round(0.45 * height)))
    overhang = math.ceil((measure(END, font) - width) / 2) if is_flat else 0
    return right + max(round(0.4 * height), overhang + 2), width


def _height_above(grid: Grid, source: Sequence[str]) -> float:
    corners = [corner for label in labels_above(grid, source) for corner in label.corners()]
    return max(-min(y for _, y in corners), 2 * LINE_HEIGHT * AXES_SIZE + GAP)


def labels_above(grid: Grid, source: Sequence[str]) -> tuple[Text, ...]:
    """The source words over their columns, then the label of the thin column if there is one."""
    centres = [grid.left + (s + 0.5) * grid.cell_width + 0.5 for s in range(len(source))]
    labels = [_above(grid, x, word) for x, word in zip(centres, source, strict=True)]
    if grid.end is not None:
        labels.append(_above(grid, grid.end[0] + grid.end[1] / 2 + 0.5, END, "muted"))
    return tuple(labels)


def _above(grid: Grid, x: float, word: str, paint: str = "ink") -> Text:
    label, size = elide(word, grid.font, LONGEST * grid.font), grid.font
    hint = word if label != word else ""
    if not grid.turn:
        return Text(x, grid.top - GAP, label, size, paint, "middle", 0.0, hint)
    sin, cos = math.sin(math.radians(grid.turn)), math.cos(math.radians(grid.turn))
    lift = GAP - 2 if cos > 0.1 else GAP - 1
    return Text(x + MIDDLE * size * sin - 3 * cos, grid.top - lift, label, size, paint, "start", grid.turn, hint)


def labels_beside(grid: Grid, target: Sequence[str]) -> tuple[Text, ...]:
    """The target words left of their rows."""
    return tuple(_beside(grid, t, word) for t, word in enumerate(target))


def _beside(grid: Grid, t: int, word: str) -> Text:
    label, size = elide(word, grid.font, LONGEST * grid.font), grid.font
    y = grid.top + (t + 0.5) * grid.cell_height + MIDDLE * size + 0.5
    return Text(grid.left - GAP, y, label, size, "ink", "end", 0.0, word if label != word else "")
