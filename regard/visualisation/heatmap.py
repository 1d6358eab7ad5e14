"""Heatmap of attention weights between words: source words along the top, target words down the
left side.

T target words (rows), S source words (columns).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from regard.common.errors import UsageError
from regard.visualisation import figure as drawing
from regard.visualisation.colours import LEVELS, level
from regard.visualisation.figure import (
    ASCENT,
    LINE_HEIGHT,
    MARGIN,
    MIDLINE,
    Box,
    Figure,
    Group,
    Text,
)
from regard.visualisation.fonts import measure
from regard.visualisation.grid import (
    AXES,
    AXES_SIZE,
    GAP,
    NUMBERS_FROM,
    Grid,
    column_labels,
    place_grid,
    row_labels,
)
from regard.visualisation.language import words
from regard.visualisation.text import clean, isolated

LEGEND_SIZE = 11.0  # text size of the legend
MIN_HEADER = 400.0  # pixels that a title may fill above a narrower grid
RULE_EVERY = 5  # words between two stronger grid lines
RULES_FROM = 20  # stronger grid lines are drawn if there are so many words
CEILINGS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
LEGEND = ("attention weight", "link")


@dataclass(frozen=True, eq=False)
class Alignment:
    """Attention weights between the words of two sentences, checked and cleaned for drawing.

    - `source`, `target`: S and T words.
    - `weights` (T, S): each row sums to one, or to less if special tokens have weight.
    - `special_weights` (T,): weights on the end of the sentence, drawn as a column apart.
    - `links`: (source, target) pairs, drawn as outlined cells.

    Raises UsageError if a sentence is empty, a shape does not fit, a weight is negative or not
    finite, a row sums to more than one, or a link lies outside.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: np.ndarray
    title: str = ""
    caption: str = ""
    special_weights: np.ndarray | None = None
    links: frozenset[tuple[int, int]] | None = None

    def __post_init__(self) -> None:
        shape = len(self.target), len(self.source)
        object.__setattr__(self, "source", tuple(clean(word) for word in self.source))
        object.__setattr__(self, "target", tuple(clean(word) for word in self.target))
        object.__setattr__(self, "title", clean(self.title))
        object.__setattr__(self, "caption", clean(self.caption))
        object.__setattr__(self, "weights", _checked("weights", self.weights, shape))
        sums = self.weights.sum(axis=1)
        if self.special_weights is not None:
            special = _checked("special_weights", self.special_weights, shape[:1])
            object.__setattr__(self, "special_weights", special)
            sums = sums + special
        if sums.max() > 1.02:  # the excess over one is the tolerance of bfloat16
            t = int(sums.argmax())
            raise UsageError(
                f"the weights of a target word sum to one at most; those of word {t} sum to "
                f"{sums[t]:.3f}"
            )
        rows, columns = self.weights.shape
        for s, t in sorted(self.links or ()):
            if not (0 <= s < columns and 0 <= t < rows):
                raise UsageError(
                    f"link {s}-{t} lies outside {columns} source words and {rows} target words"
                )


def _checked(name: str, values: object, shape: tuple[int, ...]) -> np.ndarray:
    """Return a read-only copy in double precision. Raises UsageError if it does not fit."""
    if 0 in shape:
        raise UsageError(
            "an alignment needs at least one source word and one target word"
        )
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{name} must be an array of numbers of shape {shape}; {error}"
        ) from error
    if array.shape != shape:
        axes = "(target words, source words)" if len(shape) == 2 else "(target words,)"
        raise UsageError(
            f"{name} must have the shape {shape}, {axes}; got {array.shape}"
        )
    wrong = np.argwhere(~(np.isfinite(array) & (array >= -1e-6)))
    if len(wrong):
        first = tuple(int(index) for index in wrong[0])
        raise UsageError(
            f"{name} must be finite and not negative; {name}{list(first)} is {array[first]}"
        )
    array = array.clip(min=0.0)
    array.flags.writeable = False
    return array


def ceiling_of(alignments: Sequence[Alignment]) -> float:
    """Return the weight at the top of the colour scale: the smallest of CEILINGS that no weight
    exceeds.
    """
    largest = 0.0
    for alignment in alignments:
        largest = max(largest, float(alignment.weights.max()))
        if alignment.special_weights is not None:
            largest = max(largest, float(alignment.special_weights.max()))
    return next((ceiling for ceiling in CEILINGS if largest <= ceiling), 1.0)


def layout_heatmap(alignment: Alignment, ceiling: float | None = None) -> Figure:
    """Lay out the heatmap; a fixed `ceiling` of the colour scale makes several figures
    comparable.
    """
    ceiling = ceiling or ceiling_of([alignment])
    has_end = alignment.special_weights is not None
    grid = place_grid(alignment.source, alignment.target, has_end)
    labels_right = drawing.right_edge(column_labels(grid, alignment.source))
    grid_right = (sum(grid.end) if grid.end else grid.right) + 1
    has_links = bool(alignment.links)
    legend_width = drawing.right_edge(_legend(0.0, 0.0, ceiling, has_links))
    right = max(labels_right, grid_right, MARGIN + legend_width)
    header, header_height = drawing.header_lines(
        alignment.title, alignment.caption, max(right - MARGIN, MIN_HEADER)
    )
    if header:
        grid = replace(grid, top=grid.top + float(math.ceil(header_height + 10)))
    right = max(right, drawing.right_edge(header))

    labels = column_labels(grid, alignment.source)
    legend_left = max(MARGIN, min(grid.left, right - legend_width))
    groups = (
        Group("header", header),
        Group("axes", _axes(grid)),
        Group("sources", labels[: grid.columns]),
        Group("targets", tuple(row_labels(grid, alignment.target))),
        Group("grid", _grid_lines(grid)),
        Group("cells", _cells(alignment, grid, ceiling)),
        *_end_column(alignment, grid, ceiling, labels[grid.columns :]),
        Group("values", tuple(_values(alignment, grid, ceiling))),
        Group("links", _links(alignment, grid)),
        Group("legend", _legend(legend_left, grid.bottom + 20, ceiling, has_links)),
    )
    bottom = grid.bottom + 20 + LEGEND_SIZE * LINE_HEIGHT + MARGIN
    title = alignment.title or words("Word alignment")
    return drawing.make_figure(
        right + MARGIN, bottom, groups, title, _description(alignment)
    )


def _axes(grid: Grid) -> tuple[Text, ...]:
    right = grid.left - GAP
    low = grid.top - GAP
    high = low - LINE_HEIGHT * AXES_SIZE
    return tuple(
        Text(right, y, words(AXES[n]), AXES_SIZE, "muted", "end")
        for n, y in enumerate((high, low))
    )


def _grid_lines(grid: Grid) -> tuple[Box, ...]:
    width = grid.right - grid.left + 1
    height = grid.bottom - grid.top + 1
    boxes = [Box(grid.left, grid.top, width, height, "grid")]
    if grid.end is not None:
        boxes.append(Box(grid.end[0], grid.top, grid.end[1] + 1, height, "grid"))
    if max(grid.columns, grid.rows) >= RULES_FROM:
        across = range(RULE_EVERY, grid.columns, RULE_EVERY)
        down = range(RULE_EVERY, grid.rows, RULE_EVERY)
        boxes += [
            Box(grid.left + s * grid.cell_width, grid.top, 1.0, height, "rule")
            for s in across
        ]
        boxes += [
            Box(grid.left, grid.top + t * grid.cell_height, width, 1.0, "rule")
            for t in down
        ]
    return tuple(boxes)


def _cells(alignment: Alignment, grid: Grid, ceiling: float) -> tuple[Box, ...]:
    return tuple(
        Box(
            *grid.cell(t, s),
            f"w{level(weight, ceiling)}",
            _hint(alignment.target[t], alignment.source[s], weight),
        )
        for (t, s), weight in np.ndenumerate(alignment.weights)
    )


def _links(alignment: Alignment, grid: Grid) -> tuple[Box, ...]:
    outline = 2.5 if grid.cell_height > 20 else 1.5
    return tuple(
        Box(*grid.cell(t, s), "link", outline=outline)
        for s, t in sorted(alignment.links or ())
    )


def _hint(target: str, source: str, weight: float) -> str:
    return f"{isolated(target)} ← {isolated(source)} {weight:.3f}"


def _end_column(
    alignment: Alignment, grid: Grid, ceiling: float, labels: tuple[Text, ...]
) -> tuple[Group, ...]:
    """Return the label and cells of the narrow column, if there is one."""
    if alignment.special_weights is None:
        return ()
    end = words("end of sentence")
    cells = list[Box]()
    for t, weight in enumerate(alignment.special_weights):
        paint = f"w{level(weight, ceiling)}"
        hint = _hint(alignment.target[t], end, weight)
        cells.append(Box(*grid.end_cell(t), paint, hint))
    return Group("end-label", labels), Group("end", tuple(cells))


def _values(alignment: Alignment, grid: Grid, ceiling: float) -> Iterator[Text]:
    """Write the weights in digits if cells have room for them; a weight that rounds to zero is left
    blank.
    """
    if grid.cell_height < NUMBERS_FROM:
        return
    cells = [
        (grid.cell(t, s), weight)
        for (t, s), weight in np.ndenumerate(alignment.weights)
    ]
    if alignment.special_weights is not None:
        cells += [
            (grid.end_cell(t), weight)
            for t, weight in enumerate(alignment.special_weights)
        ]
    for (x, y, width, height), weight in cells:
        digits = f"{weight:.2f}" if weight >= 0.005 else ""
        paint = f"v{level(weight, ceiling)}"
        baseline = y + height / 2 + MIDLINE * 12.0
        yield Text(x + width / 2, baseline, digits, 12.0, paint, "middle")


BAR = 126.0  # pixels: width of the colour scale
BAR_STEPS = 63  # colours of the scale


def _legend(
    left: float, top: float, ceiling: float, has_links: bool
) -> tuple[Box | Text, ...]:
    """Draw the colour scale with its name and end values, and the outline of a link if there are
    links.
    """
    size = LEGEND_SIZE
    step = BAR / BAR_STEPS
    baseline = top + ASCENT * size
    bar_left = left + 14
    bar_right = bar_left + BAR
    name_left = bar_right + 14 + measure(f"{ceiling:g}", size)
    name = Text(name_left, baseline, words(LEGEND[0]), size, "muted")

    marks: list[Box | Text] = [Box(bar_left - 1, top + 1, BAR + 2, 12.0, "rule")]
    for n in range(BAR_STEPS):
        paint = f"w{round(LEVELS * n / (BAR_STEPS - 1))}"
        marks.append(Box(bar_left + n * step, top + 2, step, 10.0, paint))
    marks.append(Text(left, baseline, "0", size, "muted"))
    marks.append(Text(bar_right + 6, baseline, f"{ceiling:g}", size, "muted"))
    marks.append(name)
    if has_links:
        link_left = drawing.right_edge([name]) + 14
        marks += [Box(link_left, top, 13.0, 13.0, "link", outline=2.0)]
        marks += [Text(link_left + 19, baseline, words(LEGEND[1]), size, "muted")]
    return tuple(marks)


def _description(alignment: Alignment) -> str:
    """Describe the figure and the largest weight of each target word, for screen readers."""
    columns = len(alignment.source)
    rows = len(alignment.target)
    largest = []
    for t, s in enumerate(alignment.weights.argmax(axis=1)):
        target = isolated(alignment.target[t])
        source = isolated(alignment.source[s])
        largest.append(f"{target} ← {source} {alignment.weights[t, s]:.2f}")
    text = (
        "Attention weights of {rows} target words (rows) over {columns} source words (columns). "
        "Strongest: {most}."
    )
    return words(text, rows=rows, columns=columns, most="; ".join(largest))
