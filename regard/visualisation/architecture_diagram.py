"""Diagram of a model: encoder at the left, decoder at the right, each from its input upwards, and
its weights by kind.

It has the shape of a slide, 16 : 9. An attention opens into rows of boxes below its own: values,
keys and queries, the heads, which are joined in its own box.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal, NamedTuple

from regard.visualisation import figure as drawing
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
)
from regard.visualisation.fonts import elide, measure, wrap
from regard.visualisation.language import words

Role = Literal["input", "norm", "attention", "sublayer", "output"]
SHADES: dict[Role, str] = {
    "input": "w8",
    "norm": "grid",
    "attention": "w30",
    "sublayer": "w16",
    "output": "w12",
}
HUES = {"V": "s2", "K": "s0", "Q": "s1"}
WIDTH = 960.0
HEIGHT = 540.0
TOP, FOOT = 66.0, 26.0  # pixels above and below the parts
# Pixels: width of a part, distance of the sides, room of a frame.
COLUMN, BETWEEN, FRAME = (
    262.0,
    100.0,
    12.0,
)
TABLE = MARGIN + 2 * COLUMN + 3 * FRAME + BETWEEN + 44.0  # left edge of the table
ROW, GAP = 42.0, 8.0  # pixels: the highest part, and between two of them
SIZE = 13.0
SMALL = 11.5


@dataclass(frozen=True)
class Part:
    """A part of a model with its weights; `source`: what of the encoder it takes in, such as "keys,
    values".

    `around`: parts below it that something goes around, which it takes in too, as a residual
    connection does. `also`: how far below it are others that it takes in. `is_first`: it takes in
    nothing of the part below. `before`: how far below (0: itself) is the part that takes in what
    this one gave in the step before. `opens`: rows of names, lowest first, of what is inside; of
    the lowest, all but the last take in what comes of the encoder, if any does. `cells`: rows and
    columns of the grid that it is.
    """

    name: str
    detail: str = ""
    weights: int = 0
    role: Role = "sublayer"
    source: str = ""
    around: int = 0
    is_first: bool = False
    also: tuple[int, ...] = ()
    before: int | None = None
    opens: tuple[tuple[str, ...], ...] = ()
    cells: tuple[int, ...] = ()


@dataclass(frozen=True)
class Stack:
    """Parts, lowest first, that follow each other `times` times with weights of their own."""

    parts: tuple[Part, ...]
    times: int = 1


@dataclass(frozen=True)
class Architecture:
    """Encoder and decoder as stacks, lowest first; `kinds`: numbers of weights by kind, largest
    first.

    The weights of a part are those of all its repetitions.
    """

    title: str
    encoder: tuple[Stack, ...]
    decoder: tuple[Stack, ...]
    kinds: tuple[tuple[str, int], ...]
    notes: tuple[str, ...] = ()


class Place(NamedTuple):
    """A box: side, number of the part, and row and column in what is inside it (row −1: the part
    itself).
    """

    side: str
    part: int
    row: int = -1
    column: int = 0


class Connection(NamedTuple):
    """An arrow; `kind`: up to the next box, around some, from one further below, from the step
    before, the encoder.
    """

    start: Place
    end: Place
    kind: Literal["up", "around", "also", "before", "source"]


def connections(architecture: Architecture) -> Iterator[Connection]:
    """Yield every arrow of the diagram."""
    top = Place("encoder", sum(len(stack.parts) for stack in architecture.encoder) - 1)
    for side, stacks in (
        ("encoder", architecture.encoder),
        ("decoder", architecture.decoder),
    ):
        parts = [part for stack in stacks for part in stack.parts]
        for n, part in enumerate(parts):
            rows = [
                [Place(side, n, r, c) for c in range(len(row))]
                for r, row in enumerate(part.opens)
            ]
            rows.append([Place(side, n)])
            for below, above in pairwise(rows):
                yield from (
                    Connection(start, end, "up") for start, end in product(below, above)
                )
            if part.source:
                yield from (
                    Connection(top, end, "source")
                    for end in (rows[0][:-1] if part.opens else rows[0])
                )
            if n and not part.is_first:
                ends = rows[0][-1:] if part.source else rows[0]
                yield from (Connection(Place(side, n - 1), end, "up") for end in ends)
            if part.around:
                yield Connection(
                    Place(side, n - part.around - 1), Place(side, n), "around"
                )
            yield from (
                Connection(Place(side, n - far), Place(side, n), "also")
                for far in part.also
            )
            if part.before is not None:
                end = Place(side, n - part.before)
                opened = parts[n - part.before].opens
                end = end._replace(row=0, column=len(opened[0]) - 1) if opened else end
                yield Connection(Place(side, n), end, "before")


def layout_architecture(architecture: Architecture) -> Figure:
    """Lay out the two sides on one slide, with the table of weights at the right."""
    sides = {"encoder": architecture.encoder, "decoder": architecture.decoder}
    row = min(
        ROW, *((HEIGHT - TOP - FOOT) / _rows(stacks) - GAP for stacks in sides.values())
    )
    size = max(10.0, _fitting(architecture.title, TITLE_SIZE, WIDTH - 2 * MARGIN))
    title = elide(architecture.title, size, WIDTH - 2 * MARGIN + 1)
    boxes = dict[Place, Box]()
    groups = [Group("header", (Text(MARGIN, MARGIN + 14, title, size),))]
    for (side, stacks), x in zip(
        sides.items(),
        (MARGIN + FRAME, MARGIN + 2 * FRAME + COLUMN + BETWEEN),
        strict=True,
    ):
        placed = _place(side, stacks, x, row)
        parts = [part for stack in stacks for part in stack.parts]
        boxes = boxes | placed
        marks = [
            Text(x, TOP - 14, words(side.capitalize()), SIZE, "muted"),
            *_frames(side, stacks, placed),
        ]
        for place, box in placed.items():
            marks += (
                _part(parts[place.part], box)
                if place.row < 0
                else _inner(parts[place.part], place, box)
            )
        groups.append(Group(side, tuple(marks)))
    parts = [part for stack in architecture.decoder for part in stack.parts]
    arrows = [
        mark
        for each in connections(architecture)
        for mark in _connection(each, boxes, parts)
    ]
    groups += [
        Group("arrows", tuple(arrows)),
        Group("weights", tuple(_table(architecture))),
    ]
    return drawing.make_figure(
        WIDTH, HEIGHT, groups, architecture.title, _description(architecture)
    )


def _fitting(text: str, size: float, room: float) -> float:
    """Return the size at which a text fits into `room` pixels, at most the one given."""
    return size * room / max(room, measure(text, size))


def _rows(stacks: tuple[Stack, ...]) -> float:
    """Return the rows of a side; a frame takes part of one more, and so does what comes into opened
    parts.
    """
    rows = sum(
        1 + len(part.opens) + 0.3 * bool(part.opens)
        for stack in stacks
        for part in stack.parts
    )
    return rows + 0.9 * sum(stack.times > 1 for stack in stacks)


def _place(
    side: str, stacks: tuple[Stack, ...], x: float, row: float
) -> dict[Place, Box]:
    """Place all boxes of a side from the foot upwards."""
    placed = dict[Place, Box]()
    y = HEIGHT - FOOT
    n = 0
    for stack in stacks:
        y -= FRAME * (stack.times > 1)
        for part in stack.parts:
            y -= 0.3 * (row + GAP) * bool(part.opens)
            for r, names in [*enumerate(part.opens), (-1, ("",))]:
                y -= row
                width = (COLUMN - GAP * (len(names) - 1)) / len(names)
                for c in range(len(names)):
                    placed[Place(side, n, r, c)] = Box(
                        x + c * (width + GAP), y, width, row, SHADES[part.role]
                    )
                y -= GAP
            n += 1
        y -= FRAME * (stack.times > 1)
    return placed


def _part(part: Part, box: Box) -> Iterator[Mark]:
    middle = box.y + box.height / 2
    size = min(SIZE, box.height * 0.55)
    small = min(SMALL, size)
    yield from (box, Box(box.x, box.y, box.width, box.height, "rule", outline=1.0))
    weights = f"{part.weights:,}" if part.weights else ""
    paint = "ink" if part.role == "attention" else "muted"
    room = COLUMN - 20 - measure(weights, small) - 5
    name = elide(words(part.name), size, room)
    yield Text(box.x + 10, middle + MIDLINE * size, name, size)
    left = measure(name, size) + 8
    detail = (
        words(part.detail) if measure(words(part.detail), small) <= room - left else ""
    )
    yield Text(box.x + 10 + left, middle + MIDLINE * small, detail, small, paint)
    yield Text(
        box.x + COLUMN - 10, middle + MIDLINE * small, weights, small, paint, "end"
    )
    side = (box.height - 8) // max(part.cells, default=1)
    for row, column in (
        product(*map(range, part.cells)) if part.cells and side >= 2 else ()
    ):
        x = box.x + COLUMN - 10 - side * (part.cells[1] - column)
        y = box.y + 4 + side * row
        yield Box(x, y, side - 1, side - 1, "w70")


def _inner(part: Part, place: Place, box: Box) -> Iterator[Mark]:
    """Draw a box of what is inside a part, in the hue of what it makes; several heads as several
    sheets.
    """
    name = part.opens[place.row][place.column]
    size = min(SMALL, box.height * 0.55)
    hue = HUES.get(name[:1], "s3")
    sheets = 2 if name[0].isdigit() and not name.startswith("1 ") else 0
    width = box.width - 2.5 * sheets
    yield Box(box.x, box.y, width, box.height, hue, outline=1.5)
    for shift in (2.5 * (n + 1) for n in range(sheets)):
        right = box.x + width + shift
        top = box.y - shift
        yield Polyline(
            ((box.x + shift, top), (right, top), (right, top + box.height)), hue, 1.2
        )
    text = elide(words(name), size, box.width - 8)
    yield Text(
        box.x + box.width / 2,
        box.y + box.height / 2 + MIDLINE * size,
        text,
        size,
        "ink",
        "middle",
    )


def _frames(
    side: str, stacks: tuple[Stack, ...], placed: dict[Place, Box]
) -> Iterator[Mark]:
    """Frame what is repeated, and say how often."""
    first = 0
    for stack in stacks:
        parts = range(first, first + len(stack.parts))
        first = parts.stop
        if stack.times > 1:
            boxes = [placed[place] for place in placed if place.part in parts]
            room = 10 * bool(stack.parts[0].opens)
            x = placed[Place(side, parts[0])].x - FRAME + 2
            top = boxes[-1].y - FRAME + 2
            foot = boxes[0].y + boxes[0].height + FRAME - 2 + room
            yield Box(x, top, COLUMN + 2 * FRAME - 4, foot - top, "muted", outline=1.5)
            yield Text(x + COLUMN + 2 * FRAME - 13, top - 2, f"{stack.times}×", SMALL)


def _connection(
    connection: Connection, boxes: dict[Place, Box], decoder: list[Part]
) -> Iterator[Mark]:
    """Draw an arrow by its kind; those of the encoder first go to the height of what takes them
    in.
    """
    start, end, kind = connection
    one = boxes[start]
    other = boxes[end]
    right = one.x + COLUMN
    foot = other.y + other.height
    paint = "muted"
    is_decoder = start.side == "decoder"
    low = one.y + 0.3 * one.height
    high = other.y + 0.7 * other.height
    if kind == "up":
        x = max(
            one.x + one.width / 2,
            other.x + other.width / 2,
            key=lambda x: abs(x - one.x - COLUMN / 2),
        )
        path = [(x, one.y), (x, foot)]
    elif kind == "around":  # what leaves leaves higher up
        above = max(
            box.y + box.height
            for place, box in boxes.items()
            if place[:2] == (start.side, start.part + 1)
        )
        x = one.x + COLUMN * 0.95
        turn = above + GAP / 2
        side = right + FRAME / 2
        path = [
            (x, one.y),
            (x, turn),
            (side, turn),
            (side, high),
            (right + 5, high),
            (right, high),
        ]
    elif kind == "also":
        path = [
            (one.x, low),
            (one.x - FRAME * 0.67, low),
            (one.x - FRAME * 0.67, high),
            (other.x, high),
        ]
    elif kind == "before":
        edge, tip, aside = (
            (right, other.x + other.width, 1) if is_decoder else (one.x, other.x, -0.67)
        )
        x = edge + FRAME * aside
        high = high - 0.15 * other.height
        paint = "s1" if is_decoder else "s0"
        path = [(edge, low), (x, low), (x, high), (tip, high)]
        yield Text(x + 5, low + 4, "t − 1" if is_decoder else "", SMALL, paint)
    else:
        x = right + FRAME + 2
        middle = other.x + other.width / 2
        paint = "link"
        opened = end.row >= 0
        high = foot + GAP + 4 if opened else other.y + other.height / 2
        path = [(right, one.y + one.height / 2), (x, one.y + one.height / 2), (x, high)]
        path += [(middle, high), (middle, foot)] if opened else [(other.x, high)]
        if not end.column:
            name = words(decoder[end.part].source)
            yield Text(
                x + 4, high - 6, name, _fitting(name, SMALL, BETWEEN - 10), "link"
            )
    width = 2.0 if paint == "link" else 1.4
    if len(path) > 2:
        yield Polyline(tuple(path[:-1]), paint, width)
    yield from drawing.arrow(path[-2], path[-1], paint, width)


def _table(architecture: Architecture) -> Iterator[Mark]:
    """Write the weights by kind with their shares, and the notes below."""
    right = WIDTH - MARGIN
    y = TOP + 4
    total = sum(count for _, count in architecture.kinds)
    yield Text(TABLE, TOP - 14, words("Weights by kind"), SIZE, "muted")
    for kind, count in architecture.kinds:
        yield Text(TABLE, y + SIZE, words(kind), SIZE)
        yield Text(right, y + SIZE, f"{count:,}", SIZE, "ink", "end")
        share = count / max(1, total)
        yield Box(
            TABLE,
            y + SIZE + 6,
            max(1.0, (right - TABLE) * share),
            5.0,
            "w70",
            f"{share:.1%}",
        )
        y += 34
    yield Box(TABLE, y + 2, right - TABLE, 1.0, "rule")
    yield Text(TABLE, y + 10 + SIZE, words("all"), SIZE)
    yield Text(right, y + 10 + SIZE, f"{total:,}", SIZE, "ink", "end")
    y += 44
    for note in architecture.notes:
        for line in wrap(note, SMALL, right - TABLE):
            yield Text(TABLE, y, line, SMALL, "muted")
            y += 15
        y += 5


def _description(architecture: Architecture) -> str:
    sides = (
        f"{words(name)}: "
        + "; ".join(
            f"{s.times} × ({', '.join(words(p.name) for p in s.parts)})" for s in stacks
        )
        for name, stacks in (
            ("encoder", architecture.encoder),
            ("decoder", architecture.decoder),
        )
    )
    return ". ".join(sides) + "."
