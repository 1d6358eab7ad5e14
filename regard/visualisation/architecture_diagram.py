"""Diagram of a model's architecture with its numbers of weights: the encoder at the left, the
decoder at the right, both from the input upwards.

The diagram fits a slide, and the column of a page; on a small screen the decoder stands below the
encoder. An attention layer is drawn opened: below its
own box, which is its last operation and has the weights of all, stand boxes for its values, keys
and queries, and for its scores or heads. Upwards is the order of computation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from regard.visualisation.screen import screen_width

Role = Literal["input", "norm", "attention", "sublayer", "output"]
SHADES: dict[Role, str] = {
    "input": "w8",
    "norm": "grid",
    "attention": "w30",
    "sublayer": "w16",
    "output": "w12",
}
Path = list[tuple[float, float]]
HUES = {"V": "s2", "K": "s0", "Q": "s1"}
WIDTH = 908.0
HEIGHT = 540.0
TOP = 66.0  # pixels above the parts
FOOT = 26.0  # pixels below the parts
COLUMN = 262.0  # pixels: width of a part
BETWEEN = 100.0  # pixels between encoder and decoder
FRAME = 12.0  # pixels between a repeated stack and its frame
TABLE = MARGIN + 2 * COLUMN + 3 * FRAME + BETWEEN + 34.0  # left edge of the table
ROW = 60.0  # pixels: greatest height of a part
GAP = 8.0  # pixels between two parts
RAIL = 15.0  # pixels left of the parts of a small screen: the way from the encoder to the decoder
NARROW_LEFT = 40.0  # left edge of the parts on a small screen
NARROW_ROW = 30.0  # pixels: height of a part on a small screen
BAND = 26.0  # pixels below a part with input from the encoder on a small screen, for its label
SIZE = 14.5
SMALL = 12.5
SHRINK = 0.9  # of the texts of a part, if its detail has no room otherwise


@dataclass(frozen=True)
class Part:
    """A part of the encoder or decoder, drawn as a box, with its number of weights.

    Each part receives the output of the part below it. Other connections, counted in parts
    downwards from this one:

    - `source`: its input from the encoder, such as "keys, values"; empty if it has none.
    - `around`: number of parts that a residual connection into this part bypasses.
    - `is_first`: it does not receive the output of the part below.
    - `also`: distances to further parts whose output it receives.
    - `before`: distance to the part that receives its output one time step later; 0 is the part
      itself.

    `opens`: rows of names of the boxes inside, lowest row first. The last box of a row reaches the
    right edge; past an empty name the box below leads to the next row. If there is an input from
    the encoder, all boxes of the lowest row except the last receive it.

    `cells`: rows and columns of a grid that is drawn in the box.
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
    """A sequence of parts, lowest first, that is repeated `times` times with separate weights."""

    parts: tuple[Part, ...]
    times: int = 1


@dataclass(frozen=True)
class Architecture:
    """Encoder and decoder as stacks, lowest first. The weights of a part are those of all its
    repetitions.

    `kinds`: number of weights of each kind of layer, largest first.
    """

    title: str
    encoder: tuple[Stack, ...]
    decoder: tuple[Stack, ...]
    kinds: tuple[tuple[str, int], ...]
    notes: tuple[str, ...] = ()


class Place(NamedTuple):
    """Position of a box in the diagram.

    `side` is "encoder" or "decoder"; `part` counts from the lowest part. `row` and `column` are the
    position among the boxes inside an opened part; row −1 is the part itself.
    """

    side: str
    part: int
    row: int = -1
    column: int = 0


class Connection(NamedTuple):
    """An arrow between two boxes.

    `kind`: "up" to the next box, "around" bypassed parts, "also" from a part further below,
    "before" from the previous time step, or "source" from the encoder.
    """

    start: Place
    end: Place
    kind: Literal["up", "around", "also", "before", "source"]


def connections(architecture: Architecture) -> Iterator[Connection]:
    """Yield every arrow of the diagram."""
    encoder = _parts(architecture.encoder)
    encoder_top = Place("encoder", len(encoder) - 1)
    sides = {"encoder": encoder, "decoder": _parts(architecture.decoder)}
    for side, parts in sides.items():
        for number, part in enumerate(parts):
            yield from _inward_connections(side, number, part, encoder_top)
            if part.before is not None:
                yield _recurrence(side, number, parts)


def _parts(stacks: Sequence[Stack]) -> list[Part]:
    return [part for stack in stacks for part in stack.parts]


def _inward_connections(
    side: str, number: int, part: Part, encoder_top: Place
) -> Iterator[Connection]:
    """Yield the arrows into a part and between the boxes inside it, except the recurrent ones."""
    place = Place(side, number)
    rows = [
        {
            column: Place(side, number, row, column)
            for column, name in enumerate(names)
            if name
        }
        for row, names in enumerate(part.opens)
    ]
    rows.append({0: place})
    for below, above in pairwise(rows):
        passing = {} if 0 in above else {0: below[0]}
        for column, end in product(below, above.values()):
            if column not in passing:
                yield Connection(below[column], end, "up")
        above.update(passing)

    lowest = [*rows[0].values()]
    if part.source:
        for end in lowest[:-1] if part.opens else lowest:
            yield Connection(encoder_top, end, "source")
    if number and not part.is_first:
        for end in lowest[-1:] if part.source else lowest:
            yield Connection(Place(side, number - 1), end, "up")
    if part.around:
        yield Connection(Place(side, number - part.around - 1), place, "around")
    for distance in part.also:
        yield Connection(Place(side, number - distance), place, "also")


def _recurrence(side: str, number: int, parts: Sequence[Part]) -> Connection:
    """Return the arrow from a part to the one that receives its output a time step later."""
    receiver = number - (parts[number].before or 0)
    end = Place(side, receiver)
    inside = parts[receiver].opens
    if inside:
        end = end._replace(row=0, column=len(inside[0]) - 1)
    return Connection(Place(side, number), end, "before")


@dataclass(frozen=True)
class Sheet:
    """Arrangement of a diagram: its size, left edge and foot of each side, height of a part, room
    below parts with input from the encoder, and left edge and top of the table of weights.
    """

    width: float
    height: float
    lefts: dict[str, float]
    feet: dict[str, float]
    row: float
    band: float
    table: tuple[float, float]

    @property
    def is_narrow(self) -> bool:
        return bool(self.band)


def layout_architecture(architecture: Architecture) -> Figure:
    """Lay out encoder and decoder on one slide, with the table of weights at the right; below one
    another on a small screen.
    """
    sides = {"encoder": architecture.encoder, "decoder": architecture.decoder}
    sheet = _narrow_sheet(architecture) if screen_width() else _slide(architecture)
    size = max(10.0, _fitting(architecture.title, TITLE_SIZE, sheet.width - 2 * MARGIN))
    title = elide(architecture.title, size, sheet.width - 2 * MARGIN + 1)

    boxes = dict[Place, Box]()
    groups = [Group("header", (Text(MARGIN, MARGIN + 14, title, size),))]
    for side, stacks in sides.items():
        placed = _place(side, stacks, sheet)
        boxes.update(placed)
        parts = _parts(stacks)
        top = min(box.y for box in placed.values()) - FRAME * 2
        name = words(side.capitalize())
        marks: list[Mark] = [
            Text(
                sheet.lefts[side],
                top if sheet.is_narrow else TOP - 14,
                name,
                SIZE,
                "muted",
            ),
            *_frames(side, stacks, placed),
        ]
        for place, box in placed.items():
            if place.row < 0:
                marks += _part(parts[place.part], box)
            else:
                marks += _inner(parts[place.part], place, box)
        groups.append(Group(side, tuple(marks)))

    decoder = _parts(architecture.decoder)
    arrows = list[Mark]()
    for connection in connections(architecture):
        arrows += _connection(connection, boxes, decoder, sheet)
    groups.append(Group("arrows", tuple(arrows)))
    groups.append(Group("weights", tuple(_table(architecture, sheet))))
    return drawing.make_figure(
        sheet.width,
        sheet.height,
        groups,
        architecture.title,
        _description(architecture),
    )


def _slide(architecture: Architecture) -> Sheet:
    """Return the arrangement of a slide, whose parts are as high as there is room."""
    row_heights = [
        (HEIGHT - TOP - FOOT) / _row_count(stacks) - GAP
        for stacks in (architecture.encoder, architecture.decoder)
    ]
    return Sheet(
        WIDTH,
        HEIGHT,
        {
            "encoder": MARGIN + FRAME,
            "decoder": MARGIN + 2 * FRAME + COLUMN + BETWEEN,
        },
        dict.fromkeys(("encoder", "decoder"), HEIGHT - FOOT),
        min(ROW, *row_heights),
        0.0,
        (TABLE, TOP),
    )


def _narrow_sheet(architecture: Architecture) -> Sheet:
    """Return the arrangement of a small screen, which is as high as its parts and texts need."""
    y = TOP
    feet = {}
    for side, stacks in (
        ("encoder", architecture.encoder),
        ("decoder", architecture.decoder),
    ):
        sources = sum(bool(part.source) for stack in stacks for part in stack.parts)
        y += _row_count(stacks) * (NARROW_ROW + GAP) + sources * BAND + FRAME
        feet[side] = y
        y += FOOT + 2 * FRAME
    room = screen_width() - 2 * MARGIN
    notes = sum(len(wrap(note, SMALL, room)) for note in architecture.notes)
    table = 34 * len(architecture.kinds) + 44
    height = y + table + 15 * notes + 5 * len(architecture.notes) + MARGIN
    lefts = dict.fromkeys(feet, NARROW_LEFT)
    return Sheet(
        screen_width(), height, lefts, feet, NARROW_ROW, BAND, (MARGIN, y + MARGIN)
    )


def _fitting(text: str, size: float, room: float) -> float:
    """Return the largest text size, up to `size`, at which a text fits into `room` pixels."""
    return size * room / max(room, measure(text, size))


def _row_count(stacks: tuple[Stack, ...]) -> float:
    """Return the height of a side in rows.

    A frame with its label takes 1.4 rows, and the arrows into an opened part take 0.3.
    """
    rows = sum(
        1 + len(part.opens) + 0.3 * bool(part.opens)
        for stack in stacks
        for part in stack.parts
    )
    return rows + 1.4 * sum(stack.times > 1 for stack in stacks)


def _place(side: str, stacks: tuple[Stack, ...], sheet: Sheet) -> dict[Place, Box]:
    """Place all boxes of a side from the foot upwards."""
    placed = dict[Place, Box]()
    left = sheet.lefts[side]
    row_height = sheet.row
    y = sheet.feet[side]
    number = 0
    for stack in stacks:
        y -= FRAME * (stack.times > 1)
        for part in stack.parts:
            y -= 0.3 * (row_height + GAP) * bool(part.opens)
            y -= sheet.band * bool(part.source)
            for row, names in [*enumerate(part.opens), (-1, (part.name,))]:
                y -= row_height
                columns = len(part.opens[0]) if part.opens else 1
                pitch = (COLUMN + GAP) / columns
                for column, name in enumerate(names):
                    x = left + column * pitch
                    is_last = column == len(names) - 1
                    width = left + COLUMN - x if is_last else pitch - GAP
                    box = Box(x, y, width, row_height, SHADES[part.role])
                    if name:
                        placed[Place(side, number, row, column)] = box
                y -= GAP
            number += 1
        y -= (FRAME + SMALL) * (stack.times > 1)
    return placed


def _part(part: Part, box: Box) -> Iterator[Mark]:
    """Draw the box of a part with its name, its number of weights, and its detail if there is
    room.
    """
    middle = box.y + box.height / 2
    yield box
    yield Box(box.x, box.y, box.width, box.height, "rule", outline=1.0)

    weights = f"{part.weights:,}" if part.weights else ""
    paint = "ink" if part.role == "attention" else "muted"
    detail = words(part.detail)
    for shrink in (1.0, SHRINK):
        size = min(SIZE * shrink, box.height * 0.55)
        small = min(SMALL * shrink, size)
        room = COLUMN - 20 - measure(weights, small) - 5
        name = elide(words(part.name), size, room)
        name_width = measure(name, size) + 8
        if measure(detail, small) <= room - name_width:
            break
    else:
        detail = ""
    yield Text(box.x + 10, middle + MIDLINE * size, name, size)
    baseline = middle + MIDLINE * small
    yield Text(box.x + 10 + name_width, baseline, detail, small, paint)
    yield Text(box.x + COLUMN - 10, baseline, weights, small, paint, "end")
    if part.cells:
        yield from _cells(part.cells, box)


def _cells(grid: tuple[int, ...], box: Box) -> Iterator[Box]:
    """Draw a grid of cells at the right of a box; none if they would be smaller than 2 pixels."""
    rows, columns = grid
    side = (box.height - 8) // max(grid)
    if side < 2:
        return
    for row, column in product(range(rows), range(columns)):
        x = box.x + COLUMN - 10 - side * (columns - column)
        y = box.y + 4 + side * row
        yield Box(x, y, side - 1, side - 1, "w70")


def _inner(part: Part, place: Place, box: Box) -> Iterator[Mark]:
    """Draw a box inside an opened part, in the hue of its values, keys or queries; several heads
    are drawn as a pile of sheets.
    """
    name = part.opens[place.row][place.column]
    size = min(SMALL, box.height * 0.55)
    hue = HUES.get(name[:1], "s3")
    sheets = 2 if name[0].isdigit() and not name.startswith("1 ") else 0
    width = box.width - 2.5 * sheets
    yield Box(box.x, box.y, width, box.height, hue, outline=1.5)
    for number in range(sheets):
        shift = 2.5 * (number + 1)
        right = box.x + width + shift
        top = box.y - shift
        edge = ((box.x + shift, top), (right, top), (right, top + box.height))
        yield Polyline(edge, hue, 1.2)

    text = elide(words(name), size, box.width - 8)
    x = box.x + box.width / 2
    y = box.y + box.height / 2 + MIDLINE * size
    yield Text(x, y, text, size, "ink", "middle")


def _frames(
    side: str, stacks: tuple[Stack, ...], placed: dict[Place, Box]
) -> Iterator[Mark]:
    """Draw a frame around each repeated stack, with the number of repetitions."""
    first = 0
    for stack in stacks:
        parts = range(first, first + len(stack.parts))
        first = parts.stop
        if stack.times > 1:
            boxes = [box for place, box in placed.items() if place.part in parts]
            room = 10 * bool(stack.parts[0].opens)
            x = placed[Place(side, parts[0])].x - FRAME + 2
            top = boxes[-1].y - FRAME + 2
            foot = boxes[0].y + boxes[0].height + FRAME - 2 + room
            yield Box(x, top, COLUMN + 2 * FRAME - 4, foot - top, "muted", outline=1.5)
            text = words("{count}×: sum of {count} layers", count=stack.times)
            yield Text(x + COLUMN + 2 * FRAME - 4, top - 3, text, SMALL, anchor="end")


def _connection(
    connection: Connection,
    boxes: dict[Place, Box],
    decoder: Sequence[Part],
    sheet: Sheet,
) -> Iterator[Mark]:
    """Draw an arrow, with its label if it comes from the encoder or the previous time step."""
    start, end, kind = connection
    start_box = boxes[start]
    end_box = boxes[end]
    is_decoder = start.side == "decoder"
    paint = "muted"
    if kind == "up":
        path = _path_up(start_box, end_box)
    elif kind == "around":
        bypassed = [
            box.y + box.height
            for place, box in boxes.items()
            if place[:2] == (start.side, start.part + 1)
        ]
        path = _path_around(start_box, end_box, max(bypassed))
    elif kind == "also":
        path = _path_at_left(start_box, end_box)
    elif kind == "before":
        paint = "s1" if is_decoder else "s0"
        path = _path_of_recurrence(start_box, end_box, is_decoder)
        x, low = path[1]
        yield Text(x + 5, low + 4, "t − 1" if is_decoder else "", SMALL, paint)
    else:
        paint = "link"
        is_opened = end.row >= 0
        name = words(decoder[end.part].source)
        if sheet.is_narrow:
            path = _path_at_rail(start_box, end_box, is_opened)
            label = Text(NARROW_LEFT + 2, path[2][1] + 15, name, SMALL, "s1")
        else:
            path = _path_from_encoder(start_box, end_box, is_opened)
            x, high = path[2]
            size = _fitting(name, SMALL, BETWEEN - 10)
            label = Text(x + 4, high - 6, name, size, "s1")
        if not end.column:
            yield label

    width = 2.0 if paint == "link" else 1.4
    if len(path) > 2:
        yield Polyline(tuple(path[:-1]), paint, width)
    yield from drawing.arrow(path[-2], path[-1], paint, width)


def _path_up(start: Box, end: Box) -> Path:
    """Return a vertical path through the centre of the narrower box."""
    narrow = min(start, end, key=lambda box: box.width)
    x = narrow.x + narrow.width / 2
    return [(x, start.y), (x, end.y + end.height)]


def _path_around(start: Box, end: Box, bypassed_foot: float) -> Path:
    """Return a path at the right of the bypassed parts, the lowest of which ends at
    `bypassed_foot`.
    """
    x = start.x + COLUMN * 0.95
    right = start.x + COLUMN
    turn = bypassed_foot + GAP / 2
    side = right + FRAME / 2
    high = end.y + 0.7 * end.height
    return [
        (x, start.y),
        (x, turn),
        (side, turn),
        (side, high),
        (right + 5, high),
        (right, high),
    ]


def _path_at_left(start: Box, end: Box) -> Path:
    """Return a path at the left of the parts between two boxes."""
    x = start.x - FRAME * 0.67
    low = start.y + 0.3 * start.height
    high = end.y + 0.7 * end.height
    return [(start.x, low), (x, low), (x, high), (end.x, high)]


def _path_of_recurrence(start: Box, end: Box, is_decoder: bool) -> Path:
    """Return the path of a recurrent connection: at the right of the decoder, at the left of the
    encoder.
    """
    low = start.y + 0.3 * start.height
    high = end.y + 0.7 * end.height - 0.15 * end.height
    if is_decoder:
        edge = start.x + COLUMN
        tip = end.x + end.width
        x = edge + FRAME
    else:
        edge = start.x
        tip = end.x
        x = edge - FRAME * 0.67
    return [(edge, low), (x, low), (x, high), (tip, high)]


def _path_from_encoder(start: Box, end: Box, is_opened: bool) -> Path:
    """Return the path from the encoder: to the foot of a box inside an opened part, or to the side
    of any other.
    """
    right = start.x + COLUMN
    x = right + FRAME + 2
    start_middle = start.y + start.height / 2
    if not is_opened:
        high = end.y + end.height / 2
        return [(right, start_middle), (x, start_middle), (x, high), (end.x, high)]
    foot = end.y + end.height
    high = foot + GAP + 4
    middle = end.x + end.width / 2
    return [
        (right, start_middle),
        (x, start_middle),
        (x, high),
        (middle, high),
        (middle, foot),
    ]


def _path_at_rail(start: Box, end: Box, is_opened: bool) -> Path:
    """Return the path from the encoder down to the decoder below it, to the foot of a box."""
    high = start.y + 0.12 * start.height
    foot = end.y + end.height
    low = foot + GAP + 2
    x = end.x + (end.width / 2 if is_opened else 16)
    return [(start.x, high), (RAIL, high), (RAIL, low), (x, low), (x, foot)]


def _table(architecture: Architecture, sheet: Sheet) -> Iterator[Mark]:
    """Write the numbers of weights by kind with their shares, and the notes below."""
    left, top = sheet.table
    right = sheet.width - MARGIN
    y = top + 4
    total = sum(count for _, count in architecture.kinds)
    yield Text(left, top - 14, words("Weights by kind"), SIZE, "muted")
    for kind, count in architecture.kinds:
        share = count / max(1, total)
        width = max(1.0, (right - left) * share)
        yield Text(left, y + SIZE, words(kind), SIZE)
        yield Text(right, y + SIZE, f"{count:,}", SIZE, "ink", "end")
        yield Box(left, y + SIZE + 6, width, 5.0, "w70", f"{share:.1%}")
        y += 34

    yield Box(left, y + 2, right - left, 1.0, "rule")
    yield Text(left, y + 10 + SIZE, words("all"), SIZE)
    yield Text(right, y + 10 + SIZE, f"{total:,}", SIZE, "ink", "end")
    y += 44
    for note in architecture.notes:
        for line in wrap(note, SMALL, right - left):
            yield Text(left, y, line, SMALL, "muted")
            y += 15
        y += 5


def _description(architecture: Architecture) -> str:
    """Describe both sides for screen readers."""
    sides = {"encoder": architecture.encoder, "decoder": architecture.decoder}
    sentences = []
    for side, stacks in sides.items():
        stack_texts = []
        for stack in stacks:
            names = ", ".join(words(part.name) for part in stack.parts)
            stack_texts.append(f"{stack.times} × ({names})")
        sentences.append(f"{words(side)}: {'; '.join(stack_texts)}")
    return ". ".join(sentences) + "."
