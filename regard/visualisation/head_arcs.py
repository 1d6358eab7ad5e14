"""Figure of all heads at one word: arcs lead from the word to every word that it attends to, in a
colour for each head.

As in the appendix of Vaswani et al. 2017, a square for each head stands beside each word and is
filled in proportion to the weight. The largest weight of each head is written after its word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.common.errors import UsageError
from regard.visualisation import figure as drawing
from regard.visualisation.colours import SERIES
from regard.visualisation.figure import (
    MARGIN,
    MIDLINE,
    Box,
    Figure,
    Group,
    Mark,
    Polyline,
    Text,
)
from regard.visualisation.fonts import elide, measure
from regard.visualisation.language import words
from regard.visualisation.screen import screen_width

ROW = 30.0  # pixels: height of a word's row
SIZE = 16.0  # text size of a word
SQUARE = 13.0  # pixels: side of a square
LEGEND = 26.0  # pixels: height of the legend
MAX_WORD = 170.0  # pixels of the widest word
BETWEEN = 330.0  # pixels between the two columns
LEAST_BETWEEN = 80.0  # the same on a small screen, at least
LEAST = 0.02  # smaller weights have no arc
MAX_WORDS = 60  # largest number of words in a column


@dataclass(frozen=True, eq=False)
class HeadArcs:
    """Weights (H, S) with which the heads of a layer attend from one of the `queries` to the
    `keys`.

    `word`: index of that query; `heads`: the number of each head, from 1. Raises UsageError if
    there are too many heads or words to draw.
    """

    queries: tuple[str, ...]
    keys: tuple[str, ...]
    word: int
    weights: np.ndarray
    heads: tuple[int, ...]
    title: str = ""

    def __post_init__(self) -> None:
        causes = list[str]()
        longest = max(len(self.queries), len(self.keys))
        count = len(self.heads)
        if count > SERIES:
            causes.append(
                f"there are colours for {SERIES} heads, got {count}: choose some of them with "
                "`head=`"
            )
        if longest > MAX_WORDS:
            causes.append(
                f"arcs are drawn for at most {MAX_WORDS} words, got {longest}: give a shorter "
                "sentence"
            )
        UsageError.raise_all(causes)
        if self.weights.shape != (len(self.heads), len(self.keys)):
            raise UsageError(
                f"wanted weights of {count} heads and {len(self.keys)} words, got "
                f"{self.weights.shape}"
            )


def layout_head_arcs(arcs: HeadArcs) -> Figure:
    """Lay out the queries at the left, the keys at the right, and the arcs of one query between
    them.
    """
    query_widths = [min(MAX_WORD, measure(word, SIZE)) for word in arcs.queries]
    left = MARGIN + max(query_widths) + 14
    squares = 12 + len(arcs.heads) * SQUARE + 10
    beside = drawing.right_edge(_words(arcs, left, 0.0, [0.0, 0.0])) + MARGIN
    between = BETWEEN
    if screen_width():
        between = max(LEAST_BETWEEN, screen_width() - left - squares - beside)
    right = left + between
    key_left = right + squares
    width = key_left + beside
    caption = words(
        "lines are as wide and bars as high as the weight of their head; its largest is written out"
    )
    header, header_height = drawing.header_lines(
        arcs.title, caption, width - 2 * MARGIN
    )
    top = MARGIN + header_height + 8
    rows = max(len(arcs.queries), len(arcs.keys))
    tops = [
        top + LEGEND + (rows - len(column)) * ROW / 2
        for column in (arcs.queries, arcs.keys)
    ]
    groups = [
        Group("header", header),
        Group("legend", tuple(_legend(arcs, top))),
        Group("arcs", tuple(_arcs(arcs, left, right, tops))),
        Group("words", tuple(_words(arcs, left, key_left, tops))),
        Group("squares", tuple(_squares(arcs, right + 12, tops[1]))),
    ]
    height = top + LEGEND + rows * ROW + MARGIN
    return drawing.make_figure(
        width,
        height,
        groups,
        arcs.title or words("Heads of a word"),
        _description(arcs),
    )


def _legend(arcs: HeadArcs, top: float) -> Iterator[Mark]:
    x = MARGIN
    for number, head in enumerate(arcs.heads):
        name = words("head {head}", head=head) if number == 0 else str(head)
        yield Box(x, top, SQUARE, SQUARE, f"s{number}")
        yield Text(x + SQUARE + 5, top + SQUARE / 2 + MIDLINE * 12, name, 12.0, "muted")
        x += SQUARE + 5 + measure(name, 12.0) + 12


def _arcs(
    arcs: HeadArcs, left: float, right: float, tops: list[float]
) -> Iterator[Polyline]:
    """Draw an arc for each head and key, the largest weights last; arcs of several heads lie side
    by side.
    """
    order = sorted(
        np.ndindex(arcs.weights.shape), key=lambda index: float(arcs.weights[index])
    )
    start = tops[0] + (arcs.word + 0.5) * ROW
    for head, key in order:
        weight = float(arcs.weights[head, key])
        if weight < LEAST:
            continue
        shift = (head - (len(arcs.heads) - 1) / 2) * min(2.6, 18 / len(arcs.heads))
        end = tops[1] + (key + 0.5) * ROW
        points = drawing.curve((left, start + shift), (right, end + shift), 16)
        yield Polyline(points, f"s{head}", 0.6 + 5.4 * weight, _hint(arcs, head, key))


def _words(
    arcs: HeadArcs, left: float, right: float, tops: list[float]
) -> Iterator[Mark]:
    """Write the queries, the shown one in a frame, and the keys with the largest weight of each
    head.
    """
    for number, word in enumerate(arcs.queries):
        y = tops[0] + (number + 0.5) * ROW
        text = elide(word, SIZE, MAX_WORD)
        is_shown = number == arcs.word
        paint = "ink" if is_shown else "muted"
        yield Text(left - 10, y + MIDLINE * SIZE, text, SIZE, paint, "end")
        if is_shown:
            width = measure(text, SIZE)
            x = left - 14 - width
            yield Box(x, y - ROW / 2 + 2, width + 8, ROW - 4, "ink", outline=1.5)

    strongest = arcs.weights.argmax(1)
    for number, word in enumerate(arcs.keys):
        y = tops[1] + (number + 0.5) * ROW + MIDLINE * SIZE
        text = elide(word, SIZE, MAX_WORD)
        paint = "ink" if arcs.weights[:, number].max() >= LEAST else "muted"
        yield Text(right, y, text, SIZE, paint)
        x = right + measure(text, SIZE) + 10
        for head in np.flatnonzero(strongest == number):
            weight = f"{arcs.weights[head, number]:.2f}"
            hint = _hint(arcs, int(head), number)
            yield Text(x, y, weight, SIZE, f"s{head}", hint=hint)
            x += measure(weight, SIZE) + 8


def _squares(arcs: HeadArcs, x: float, top: float) -> Iterator[Box]:
    """Draw a square for each key and head, filled from its foot in proportion to the weight."""
    for (head, key), weight in np.ndenumerate(arcs.weights):
        left = x + head * SQUARE
        y = top + (key + 0.5) * ROW - SQUARE / 2
        side = SQUARE - 2
        hint = _hint(arcs, head, key)
        yield Box(left, y, side, SQUARE, "grid", hint, outline=1.0)
        if weight >= LEAST:
            filled = float(min(1.0, weight)) * SQUARE
            yield Box(left, y + SQUARE - filled, side, filled, f"s{head}", hint)


def _hint(arcs: HeadArcs, head: int, key: int) -> str:
    name = words("head {head}", head=arcs.heads[head])
    return f"{name}: {arcs.queries[arcs.word]} → {arcs.keys[key]} {arcs.weights[head, key]:.3f}"


def _description(arcs: HeadArcs) -> str:
    """Describe the largest weight of each head, for screen readers."""
    strongest = []
    for head, row in zip(arcs.heads, arcs.weights, strict=True):
        name = words("head {head}", head=head)
        key = arcs.keys[int(row.argmax())]
        strongest.append(f"{name}: {key} {row.max():.2f}")
    return words(
        "{word} attends to: {heads}.",
        word=arcs.queries[arcs.word],
        heads="; ".join(strongest),
    )
