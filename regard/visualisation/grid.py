"""Grid geometry of a heatmap: sizes of cells and labels, and the angle of the column labels, for 1
to 80 words.

T rows (target words), S columns (source words).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from regard.visualisation.figure import LINE_HEIGHT, MARGIN, MIDLINE, Text
from regard.visualisation.fonts import elide, measure
from regard.visualisation.language import words

END = "(end)"  # label of the narrow column for the weight on the end of the sentence
GAP = 8.0  # pixels between a label and the grid
TARGET_SIDE = 720.0  # pixels of the whole grid, unless cells reach their bounds
MIN_CELL = 13.0  # pixels
MAX_CELL = 44.0  # pixels
NUMBERS_FROM = 40  # pixels: cells at least this high show their weight in digits
MAX_FLAT_CELL = 80.0  # pixels of the widest column that fits a horizontal label
# Ems of the widest label, forty Hangul syllables; a longer word is elided, and its hint has it all.
MAX_LABEL = 46.0
AXES = ("source →", "target ↓")
AXES_SIZE = 11.0


@dataclass(frozen=True)
class Grid:
    """Positions of T rows, S columns, and a narrow column for the end of the sentence if there is
    one.
    """

    left: float
    top: float
    cell_width: float
    cell_height: float
    columns: int
    rows: int
    font: float
    turn: float  # of the column labels, in degrees
    end: tuple[float, float] | None  # left edge and width of the narrow column

    @property
    def right(self) -> float:
        return self.left + self.columns * self.cell_width

    @property
    def bottom(self) -> float:
        return self.top + self.rows * self.cell_height

    def cell(self, t: int, s: int) -> tuple[float, float, float, float]:
        """Return x, y, width and height of a cell, without the hairline between cells."""
        x = self.left + s * self.cell_width
        y = self.top + t * self.cell_height
        return x + 1, y + 1, self.cell_width - 1, self.cell_height - 1

    def end_cell(self, t: int) -> tuple[float, float, float, float]:
        """Return the same for row t of the narrow column."""
        assert self.end is not None, (
            "this grid has no column for the end of the sentence"
        )
        x, width = self.end
        return (
            x + 1,
            self.top + t * self.cell_height + 1,
            width - 1,
            self.cell_height - 1,
        )


def place_grid(source: Sequence[str], target: Sequence[str], has_end: bool) -> Grid:
    """Return a grid for these words, as close to the top left corner as margin and labels allow."""
    height = min(MAX_CELL, max(MIN_CELL, TARGET_SIDE // max(len(source), len(target))))
    font = min(14.0, max(10.0, 0.72 * height))
    flat = float(math.ceil(_widest(source, font) + GAP))
    is_flat = flat <= MAX_FLAT_CELL and flat * len(source) <= 1.2 * TARGET_SIDE
    width = max(height, flat) if is_flat else height
    axis_widths = [measure(words(name), AXES_SIZE) for name in AXES]
    left = float(math.ceil(MARGIN + GAP + max(_widest(target, font), *axis_widths)))
    end = None
    if has_end:
        end = _end_column(left + width * len(source), height, font, is_flat)
    if is_flat:
        turn = 0.0
    elif height * math.sin(math.radians(45)) >= 1.2 * font:
        turn = 45.0  # easier to read than vertical labels, but needs wider columns
    else:
        turn = 90.0
    grid = Grid(left, 0.0, width, height, len(source), len(target), font, turn, end)
    return replace(grid, top=float(math.ceil(MARGIN + _height_above(grid, source))))


def _widest(words: Sequence[str], font: float) -> float:
    return max(measure(elide(word, font, MAX_LABEL * font), font) for word in words)


def _end_column(
    right: float, height: float, font: float, is_flat: bool
) -> tuple[float, float]:
    has_number = height >= NUMBERS_FROM
    width = height if has_number else max(8.0, float(round(0.45 * height)))
    overhang = math.ceil((measure(words(END), font) - width) / 2) if is_flat else 0
    return right + max(round(0.4 * height), overhang + 2), width


def _height_above(grid: Grid, source: Sequence[str]) -> float:
    corners = [
        corner for label in column_labels(grid, source) for corner in label.corners()
    ]
    return max(-min(y for _, y in corners), 2 * LINE_HEIGHT * AXES_SIZE + GAP)


def column_labels(grid: Grid, source: Sequence[str]) -> tuple[Text, ...]:
    """Return the source words above their columns, then the label of the narrow column if there is
    one.
    """
    centres = [
        grid.left + (s + 0.5) * grid.cell_width + 0.5 for s in range(len(source))
    ]
    labels = [
        _column_label(grid, x, word) for x, word in zip(centres, source, strict=True)
    ]
    if grid.end is not None:
        labels.append(
            _column_label(
                grid, grid.end[0] + grid.end[1] / 2 + 0.5, words(END), "muted"
            )
        )
    return tuple(labels)


def _column_label(grid: Grid, x: float, word: str, paint: str = "ink") -> Text:
    label = elide(word, grid.font, MAX_LABEL * grid.font)
    size = grid.font
    hint = word if label != word else ""
    if not grid.turn:
        return Text(x, grid.top - GAP, label, size, paint, "middle", 0.0, hint)
    sin = math.sin(math.radians(grid.turn))
    cos = math.cos(math.radians(grid.turn))
    lift = GAP - 2 if cos > 0.1 else GAP - 1
    return Text(
        x + MIDLINE * size * sin - 3 * cos,
        grid.top - lift,
        label,
        size,
        paint,
        "start",
        grid.turn,
        hint,
    )


def row_labels(grid: Grid, target: Sequence[str]) -> Iterator[Text]:
    """Write the target words left of their rows."""
    for t, word in enumerate(target):
        label = elide(word, grid.font, MAX_LABEL * grid.font)
        size = grid.font
        y = grid.top + (t + 0.5) * grid.cell_height + MIDLINE * size + 0.5
        yield Text(
            grid.left - GAP,
            y,
            label,
            size,
            "ink",
            "end",
            0.0,
            word if label != word else "",
        )
