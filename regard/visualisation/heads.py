"""All heads of a layer side by side, on one colour scale, small: for telling at a glance what each is for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.errors import UsageError
from regard.visualisation.colours import level
from regard.visualisation.fonts import elide, measure
from regard.visualisation.heatmap import Alignment, ceiling_of
from regard.visualisation.layout import MIDDLE, Box, Figure, Group, Mark, Text

__all__ = ["Heads", "layout_heads"]

MARGIN, GAP, NAME = 18.0, 22.0, 13.0
SIDE = 210.0  # pixels that the words of a head tend to
SMALLEST, LARGEST, LEGIBLE = 3.0, 22.0, 11.0  # pixels of a cell; from where words stand beside it
LONGEST = 110.0  # pixels of a word
ACROSS = 4  # heads in a row
WIDEST = 560.0  # pixels that a title may ask for


@dataclass(frozen=True, eq=False)
class Heads:
    """Alignments of the same words, one for each head; the caption of each is its name."""

    heads: tuple[Alignment, ...]
    title: str = ""

    def __post_init__(self) -> None:
        if not self.heads:
            raise UsageError("there is no head to draw")
        first = self.heads[0]
        if any((head.source, head.target) != (first.source, first.target) for head in self.heads):
            raise UsageError("heads that stand side by side read the same words")


def layout_heads(heads: Heads) -> Figure:
    """Panels in rows of four; words at the left of each row and above each column of panels, where there is room."""
    first, ceiling = heads.heads[0], ceiling_of(heads.heads)
    T, S = len(first.target), len(first.source)
    cell = min(LARGEST, max(SMALLEST, SIDE // max(S, T)))
    size = min(12.0, 0.8 * cell)
    has_words = cell >= LEGIBLE
    beside = max(_width(word, size) for word in first.target) + 6 if has_words else 0.0
    above = max(_width(word, size) for word in first.source) + 6 if has_words else 0.0
    left, top = MARGIN + beside, MARGIN + (24.0 if heads.title else 0.0) + above + NAME + 6
    wide = max([S * cell, *(measure(head.caption, NAME) for head in heads.heads)]) + GAP
    high = T * cell + NAME + GAP
    groups = []
    for number, head in enumerate(heads.heads):
        row, column = divmod(number, ACROSS)
        x, y = left + column * wide, top + row * high
        marks = [*_panel(head, x, y, cell, ceiling)]
        if has_words and column == 0:
            marks += _beside(head.target, x, y, cell, size)
        if has_words and row == 0:
            marks += _above(head.source, x, y - NAME - 8, cell, size)
        groups.append(Group(f"head-{number + 1}", tuple(marks)))
    rows, columns = -(-len(heads.heads) // ACROSS), min(ACROSS, len(heads.heads))
    width = math.ceil(max(left + columns * wide - GAP, MARGIN + min(WIDEST, measure(heads.title, 16.0))) + MARGIN)
    height = math.ceil(top + rows * high - GAP - NAME + MARGIN + 4)
    title = (Text(MARGIN, MARGIN + 14, elide(heads.title, 16.0, width - 2 * MARGIN), 16.0),) if heads.title else ()
    paper = Group("paper", (Box(0.0, 0.0, float(width), float(height), "paper"),))
    groups = [paper, Group("header", title), *groups]
    return Figure(width, height, tuple(groups), heads.title or "Heads", _description(heads))


def _width(word: str, size: float) -> float:
    return min(LONGEST, measure(word, size))


def _panel(head: Alignment, x: float, y: float, cell: float, ceiling: float) -> Iterator[Mark]:
    T, S = head.weights.shape
    yield Text(x, y - 6, head.caption, NAME, "muted")
    yield Box(x - 1, y - 1, S * cell + 2, T * cell + 2, "rule", outline=1.0)
    room = 1.0 if cell >= 6 else 0.0
    for (t, s), weight in np.ndenumerate(head.weights):
        place = level(float(weight), ceiling)
        if place:
            hint = f"{head.target[t]} ← {head.source[s]} {weight:.3f}"
            yield Box(x + s * cell, y + t * cell, cell - room, cell - room, f"w{place}", hint)


def _beside(words: tuple[str, ...], x: float, y: float, cell: float, size: float) -> Iterator[Text]:
    for t, word in enumerate(words):
        yield Text(x - 6, y + (t + 0.5) * cell + MIDDLE * size, elide(word, size, LONGEST), size, "ink", "end")


def _above(words: tuple[str, ...], x: float, y: float, cell: float, size: float) -> Iterator[Text]:
    for s, word in enumerate(words):
        yield Text(x + (s + 0.5) * cell + MIDDLE * size, y, elide(word, size, LONGEST), size, "ink", "start", 90.0)


def _description(heads: Heads) -> str:
    """What each head looked at most, as far as numbers tell."""
    told = []
    for head in heads.heads:
        T, S = head.weights.shape
        sharp = float(head.weights.max(1).mean())
        told.append(f"{head.caption}: its strongest weight is {sharp:.2f} in the mean of {T} target words")
    return f"{len(heads.heads)} heads over {S} source words. {'; '.join(told)}."
