"""All heads of a multi-head attention layer side by side, small and on one colour scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.common.errors import UsageError
from regard.visualisation.colours import level
from regard.visualisation.figure import (
    MARGIN,
    MIDLINE,
    TITLE_SIZE,
    Box,
    Figure,
    Group,
    Mark,
    Text,
    make_figure,
)
from regard.visualisation.fonts import elide, measure
from regard.visualisation.heatmap import Alignment, ceiling_of
from regard.visualisation.language import words

GAP = 22.0  # pixels between two heads
NAME_SIZE = 13.0  # text size of a head's name
TARGET_SIDE = 210.0  # pixels of a head's longer side, unless cells reach their bounds
MIN_CELL = 3.0  # pixels
MAX_CELL = 22.0  # pixels
WORDS_FROM = 11.0  # pixels: words are written if cells are at least this large
MAX_WORD = 110.0  # pixels of the widest word
MAX_TITLE = 560.0  # pixels of the widest title
COLUMNS = 4  # heads in a row


@dataclass(frozen=True, eq=False)
class Heads:
    """Alignments of the same words, one per head; the caption of each is its name."""

    heads: tuple[Alignment, ...]
    title: str = ""

    def __post_init__(self) -> None:
        if not self.heads:
            raise UsageError("there is no head to draw")
        first = self.heads[0]
        if any(
            (head.source, head.target) != (first.source, first.target)
            for head in self.heads
        ):
            raise UsageError(
                "heads that are drawn side by side must be of the same words"
            )


def layout_heads(heads: Heads) -> Figure:
    """Lay out panels in rows of four, with words left of each row and above each column if there is
    room.
    """
    first = heads.heads[0]
    ceiling = ceiling_of(heads.heads)
    T = len(first.target)
    S = len(first.source)
    cell = min(MAX_CELL, max(MIN_CELL, TARGET_SIDE // max(S, T)))
    size = min(12.0, 0.8 * cell)
    has_words = cell >= WORDS_FROM
    beside = 0.0
    above = 0.0
    if has_words:
        beside = min(MAX_WORD, max(measure(word, size) for word in first.target)) + 6
        above = min(MAX_WORD, max(measure(word, size) for word in first.source)) + 6
    left = MARGIN + beside
    top = MARGIN + (24.0 if heads.title else 0.0) + above + NAME_SIZE + 6
    name_widths = [measure(head.caption, NAME_SIZE) for head in heads.heads]
    step_x = max([S * cell, *name_widths]) + GAP
    step_y = T * cell + NAME_SIZE + GAP

    groups = []
    for number, head in enumerate(heads.heads):
        row, column = divmod(number, COLUMNS)
        x = left + column * step_x
        y = top + row * step_y
        marks = list(_panel(head, x, y, cell, ceiling))
        if has_words and column == 0:
            marks += _row_words(head.target, x, y, cell, size)
        if has_words and row == 0:
            marks += _column_words(head.source, x, y, cell, size)
        groups.append(Group(f"head-{number + 1}", tuple(marks)))

    rows = -(-len(heads.heads) // COLUMNS)
    columns = min(COLUMNS, len(heads.heads))
    right = max(
        left + columns * step_x - GAP,
        MARGIN + min(MAX_TITLE, measure(heads.title, TITLE_SIZE)),
    )
    title = elide(heads.title, TITLE_SIZE, right - MARGIN + 1)
    header = (Text(MARGIN, MARGIN + 14, title, TITLE_SIZE),) if heads.title else ()
    bottom = top + rows * step_y - GAP - NAME_SIZE + MARGIN + 4
    groups = [Group("header", header), *groups]
    return make_figure(
        right + MARGIN,
        bottom,
        groups,
        heads.title or words("Heads"),
        _description(heads),
    )


def _row_words(
    target: Sequence[str], x: float, y: float, cell: float, size: float
) -> Iterator[Text]:
    """Write the target words left of the rows of a panel at (x, y)."""
    for t, word in enumerate(target):
        baseline = y + (t + 0.5) * cell + MIDLINE * size
        text = elide(word, size, MAX_WORD)
        yield Text(x - 6, baseline, text, size, "ink", "end")


def _column_words(
    source: Sequence[str], x: float, y: float, cell: float, size: float
) -> Iterator[Text]:
    """Write the source words above the columns of a panel at (x, y), upwards."""
    for s, word in enumerate(source):
        baseline = x + (s + 0.5) * cell + MIDLINE * size
        text = elide(word, size, MAX_WORD)
        yield Text(baseline, y - NAME_SIZE - 8, text, size, "ink", "start", 90.0)


def _panel(
    head: Alignment, x: float, y: float, cell: float, ceiling: float
) -> Iterator[Mark]:
    """Draw one head: its name above its cells."""
    T, S = head.weights.shape
    yield Text(x, y - 6, head.caption, NAME_SIZE, "muted")
    yield Box(x - 1, y - 1, S * cell + 2, T * cell + 2, "rule", outline=1.0)
    hairline = 1.0 if cell >= 6 else 0.0
    side = cell - hairline
    for (t, s), weight in np.ndenumerate(head.weights):
        shade = level(float(weight), ceiling)
        if shade > 0:
            hint = f"{head.target[t]} ← {head.source[s]} {weight:.3f}"
            yield Box(x + s * cell, y + t * cell, side, side, f"w{shade}", hint)


def _description(heads: Heads) -> str:
    """Describe how sharp each head is, for screen readers."""
    means = "; ".join(
        f"{head.caption} {head.weights.max(1).mean():.2f}" for head in heads.heads
    )
    text = (
        "{count} heads over {columns} source words. The strongest weight of a target word, on "
        "average: {means}."
    )
    return words(
        text, count=len(heads.heads), columns=len(heads.heads[0].source), means=means
    )
