"""All heads of one word at once: arcs from the word to every word that it attends to, a colour for
each head.

As in the appendix of Vaswani et al. 2017: beside each word stands a square for each head, as strong
as its weight. The largest weight of each head is written after its word.
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

# Pixels: a word and its text, side of a square, the legend.
ROW, SIZE, SQUARE, LEGEND = (
    30.0,
    16.0,
    13.0,
    26.0,
)
# Pixels: the widest word, and the distance of the two columns.
MAX_WORD, BETWEEN = 170.0, 330.0
# Weights below have no arc; words of a column that can be drawn.
LEAST, MAX_WORDS = 0.02, 60


@dataclass(frozen=True, eq=False)
class HeadArcs:
    """Weights (H, S) with which the heads of a layer attend from one of the `queries` to the
    `keys`.

    `heads`: the number of each head, from 1. Raises UsageError if there are more than can be drawn.
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
                "--head"
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
    squares = len(arcs.heads) * SQUARE + 10
    left = (
        MARGIN + max(min(MAX_WORD, measure(word, SIZE)) for word in arcs.queries) + 14
    )
    right = left + BETWEEN
    width = (
        drawing.right_edge(_words(arcs, left, right + 12 + squares, [0.0, 0.0]))
        + MARGIN
    )
    caption = words(
        "a line and a square are as strong as the weight of their head; its largest is written out"
    )
    header, header_height = drawing.header_lines(
        arcs.title, caption, width - 2 * MARGIN
    )
    top = MARGIN + header_height + 8
    rows = max(len(arcs.queries), len(arcs.keys))
    tops = [
        top + LEGEND + (rows - len(words)) * ROW / 2
        for words in (arcs.queries, arcs.keys)
    ]
    groups = [
        Group("header", header),
        Group("legend", tuple(_legend(arcs, top))),
        Group("arcs", tuple(_arcs(arcs, left, right, tops))),
        Group("words", tuple(_words(arcs, left, right + 12 + squares, tops))),
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
    """Draw an arc for each head and word; those of several heads lie side by side, the strongest on
    top.
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
    for number, word in enumerate(arcs.queries):
        y = tops[0] + (number + 0.5) * ROW
        is_word = number == arcs.word
        text = elide(word, SIZE, MAX_WORD)
        yield Text(
            left - 10,
            y + MIDLINE * SIZE,
            text,
            SIZE,
            "ink" if is_word else "muted",
            "end",
        )
        if is_word:
            width = measure(text, SIZE)
            yield Box(
                left - 14 - width,
                y - ROW / 2 + 2,
                width + 8,
                ROW - 4,
                "ink",
                outline=1.5,
            )
    strongest = arcs.weights.argmax(1)
    for number, word in enumerate(arcs.keys):
        y = tops[1] + (number + 0.5) * ROW + MIDLINE * SIZE
        text = elide(word, SIZE, MAX_WORD)
        yield Text(
            right,
            y,
            text,
            SIZE,
            "ink" if arcs.weights[:, number].max() >= LEAST else "muted",
        )
        x = right + measure(text, SIZE) + 10
        for head in np.flatnonzero(strongest == number):
            weight = f"{arcs.weights[head, number]:.2f}"
            yield Text(
                x, y, weight, SIZE, f"s{head}", hint=_hint(arcs, int(head), number)
            )
            x += measure(weight, SIZE) + 8


def _squares(arcs: HeadArcs, x: float, top: float) -> Iterator[Box]:
    """Draw for each key a square for each head, filled from its foot by the share of its weight."""
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
    """Describe where each head looks, for screen readers."""
    strongest = (
        f"{words('head {head}', head=head)}: {arcs.keys[int(row.argmax())]} {row.max():.2f}"
        for head, row in zip(arcs.heads, arcs.weights, strict=True)
    )
    return words(
        "{word} attends to: {heads}.",
        word=arcs.queries[arcs.word],
        heads="; ".join(strongest),
    )
