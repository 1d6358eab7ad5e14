"""Diagram of a model: encoder at the left, decoder at the right, each from its input upwards, and its weights by kind.

It has the shape of a slide, 16 : 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from regard.visualisation.figure import (
    MARGIN,
    MIDLINE,
    TITLE_SIZE,
    Box,
    Figure,
    Group,
    Mark,
    Polyline,
    Text,
    make_figure,
)
from regard.visualisation.fonts import elide, measure, wrap

Role = Literal["input", "norm", "attention", "sublayer", "output"]
SHADES: dict[Role, str] = {"input": "w8", "norm": "grid", "attention": "w30", "sublayer": "w16", "output": "w12"}
WIDTH, HEIGHT = 960.0, 540.0
TOP, FOOT = 66.0, 26.0  # pixels above and below the parts
COLUMN, BETWEEN, FRAME = 262.0, 84.0, 12.0  # pixels: width of a part, distance of the sides, room of a frame
TABLE = MARGIN + 2 * COLUMN + 3 * FRAME + BETWEEN + 44.0  # left edge of the table
ROW, GAP = 42.0, 8.0  # pixels: the highest part, and between two of them
SIZE, SMALL = 13.0, 11.0


@dataclass(frozen=True)
class Part:
    """A part of a model with its weights; `source`: what of the encoder it takes in, such as "keys, values".

    `around`: parts below it that something goes around, which it takes in too, as a residual connection does.
    `is_first`: it takes in nothing of the part below.
    """

    name: str
    detail: str = ""
    weights: int = 0
    role: Role = "sublayer"
    source: str = ""
    around: int = 0
    is_first: bool = False


@dataclass(frozen=True)
class Stack:
    """Parts, lowest first, that follow each other `times` times with weights of their own."""

    parts: tuple[Part, ...]
    times: int = 1


@dataclass(frozen=True)
class Architecture:
    """Encoder and decoder as stacks, lowest first; `kinds`: numbers of weights by kind, largest first.

    The weights of a part are those of all its repetitions.
    """

    title: str
    encoder: tuple[Stack, ...]
    decoder: tuple[Stack, ...]
    kinds: tuple[tuple[str, int], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Placed:
    part: Part
    x: float
    y: float
    height: float


def layout_architecture(architecture: Architecture) -> Figure:
    """Lay out the two sides on one slide, with the table of weights at the right."""
    sides = (architecture.encoder, architecture.decoder)
    lefts = (MARGIN + FRAME, MARGIN + FRAME + COLUMN + FRAME + BETWEEN)
    row = min(ROW, *((HEIGHT - TOP - FOOT) / _rows(stacks) - GAP for stacks in sides))
    placed = [_place(stacks, x, row) for stacks, x in zip(sides, lefts, strict=True)]
    groups = [Group("header", (Text(MARGIN, MARGIN + 14, architecture.title, TITLE_SIZE),))]
    for name, stacks, parts, x in zip(("encoder", "decoder"), sides, placed, lefts, strict=True):
        marks = [Text(x, TOP - 14, name.capitalize(), SIZE, "muted"), *_frames(stacks, parts)]
        marks += [mark for item in parts for mark in _part(item)]
        groups.append(Group(name, (*marks, *_arrows(parts))))
    groups.append(Group("links", tuple(_links(placed[0], placed[1]))))
    groups.append(Group("weights", tuple(_table(architecture))))
    return make_figure(WIDTH, HEIGHT, groups, architecture.title, _description(architecture))


def _rows(stacks: tuple[Stack, ...]) -> float:
    """Return the rows of a side; a frame takes part of one more."""
    return float(sum(len(stack.parts) + (0.9 if stack.times > 1 else 0) for stack in stacks))


def _place(stacks: tuple[Stack, ...], x: float, row: float) -> list[_Placed]:
    """Place the parts from the foot upwards."""
    placed, y = list[_Placed](), HEIGHT - FOOT
    for stack in stacks:
        y -= FRAME * (stack.times > 1)
        for part in stack.parts:
            y -= row
            placed.append(_Placed(part, x, y, row))
            y -= GAP
        y -= FRAME * (stack.times > 1)
    return placed


def _part(item: _Placed) -> Iterator[Mark]:
    part, middle = item.part, item.y + item.height / 2
    size = min(SIZE, item.height * 0.55)
    yield Box(item.x, item.y, COLUMN, item.height, SHADES[part.role])
    yield Box(item.x, item.y, COLUMN, item.height, "rule", outline=1.0)
    weights, paint = f"{part.weights:,}" if part.weights else "", "ink" if part.role == "attention" else "muted"
    room = COLUMN - 20 - measure(weights, SMALL) - 8
    name = elide(part.name, size, room)
    yield Text(item.x + 10, middle + MIDLINE * size, name, size)
    left = measure(name, size) + 10
    if part.detail and room - left > 30:
        yield Text(item.x + 10 + left, middle + MIDLINE * SMALL, elide(part.detail, SMALL, room - left), SMALL, paint)
    yield Text(item.x + COLUMN - 10, middle + MIDLINE * SMALL, weights, SMALL, paint, "end")


def _frames(stacks: tuple[Stack, ...], placed: list[_Placed]) -> Iterator[Mark]:
    """Frame what is repeated, and say how often."""
    first = 0
    for stack in stacks:
        parts = placed[first : first + len(stack.parts)]
        first += len(stack.parts)
        if stack.times > 1:
            top, foot = parts[-1].y - FRAME + 2, parts[0].y + parts[0].height + FRAME - 2
            yield Box(parts[0].x - FRAME + 2, top, COLUMN + 2 * FRAME - 4, foot - top, "muted", outline=1.5)
            yield Text(parts[0].x + COLUMN + FRAME + 4, foot - 3, f"{stack.times} ×", SIZE, "ink")


def _arrows(placed: list[_Placed]) -> Iterator[Polyline]:
    """Join each part to the one above it that takes it in, and lead around others what goes around them."""
    for below, above in pairwise(placed):
        x = below.x + COLUMN / 2
        if not above.part.is_first:
            yield from _arrow((x, below.y), (x, above.y + above.height), "muted")
    for number, item in enumerate(placed):
        if item.part.around:
            first, x, side = placed[number - item.part.around], item.x + COLUMN / 2, item.x + COLUMN + FRAME / 2
            below, tip = placed[number - item.part.around - 1], item.x + COLUMN
            start, end = first.y + first.height + GAP / 2, item.y + 0.7 * item.height  # what leaves leaves higher up
            yield Polyline(((x, below.y), (x, start), (side, start), (side, end), (tip, end)), "muted", 1.4)
            yield Polyline(((tip + 4.5, end - 3.5), (tip + 4.5, end + 3.5), (tip, end)), "muted")


def _arrow(start: tuple[float, float], end: tuple[float, float], paint: str) -> Iterator[Polyline]:
    (x1, y1), (x2, y2) = start, end
    yield Polyline((start, end), paint, 1.4)
    if x1 == x2:
        tip = 4.0 if y1 > y2 else -4.0
        yield Polyline(((x2 - 3.5, y2 + tip), (x2 + 3.5, y2 + tip), (x2, y2)), paint)
    else:
        yield Polyline(((x2 - 5, y2 - 3.5), (x2 - 5, y2 + 3.5), (x2, y2)), paint)


def _links(encoder: list[_Placed], decoder: list[_Placed]) -> Iterator[Mark]:
    """Lead what the encoder hands over from its top to the parts of the decoder that take it in."""
    targets = [item for item in decoder if item.part.source]
    if not targets:
        return
    top = encoder[-1]
    start = (top.x + COLUMN, top.y + top.height / 2)
    turn = top.x + COLUMN + FRAME + 12
    ends = [item.y + item.height / 2 for item in targets]
    yield Polyline((start, (turn, start[1])), "link", 2.0)
    yield Polyline(((turn, min(start[1], *ends)), (turn, max(start[1], *ends))), "link", 2.0)
    for item, y in zip(targets, ends, strict=True):
        yield from _arrow((turn, y), (item.x, y), "link")
        yield Text(turn + 6, y - 6, item.part.source, SMALL, "link")


def _table(architecture: Architecture) -> Iterator[Mark]:
    """Write the weights by kind with their shares, and the notes below."""
    right, y = WIDTH - MARGIN, TOP + 4
    total = sum(count for _, count in architecture.kinds)
    yield Text(TABLE, TOP - 14, "Weights by kind", SIZE, "muted")
    for kind, count in architecture.kinds:
        yield Text(TABLE, y + SIZE, kind, SIZE)
        yield Text(right, y + SIZE, f"{count:,}", SIZE, "ink", "end")
        share = count / max(1, total)
        yield Box(TABLE, y + SIZE + 6, max(1.0, (right - TABLE) * share), 5.0, "w70", f"{share:.1%}")
        y += 34
    yield Box(TABLE, y + 2, right - TABLE, 1.0, "rule")
    yield Text(TABLE, y + 10 + SIZE, "all", SIZE)
    yield Text(right, y + 10 + SIZE, f"{total:,}", SIZE, "ink", "end")
    y += 44
    for note in architecture.notes:
        for line in wrap(note, SMALL, right - TABLE):
            yield Text(TABLE, y, line, SMALL, "muted")
            y += 15
        y += 5


def _description(architecture: Architecture) -> str:
    sides = (
        f"{name}: " + "; ".join(f"{s.times} × ({', '.join(p.name for p in s.parts)})" for s in stacks)
        for name, stacks in (("encoder", architecture.encoder), ("decoder", architecture.decoder))
    )
    return ". ".join(sides) + "."
