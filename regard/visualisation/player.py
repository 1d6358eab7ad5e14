"""How a translation was written, frame by frame: where the model looks, what it reads, what may come next, the tree.

The page's player shows the same; these frames make a GIF or an SVG that moves by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from regard.errors import UsageError
from regard.visualisation.colours import level
from regard.visualisation.explanation_data import ExplanationData, SearchNode, token_label
from regard.visualisation.fonts import elide, measure
from regard.visualisation.layout import LINE_HEIGHT, MIDDLE, Box, Figure, Group, Line, Mark, Text
from regard.visualisation.overlay import veiled

__all__ = ["layout_frames"]

WIDTH, MARGIN = 760.0, 18.0
SIZE, SMALL = 15.0, 11.0
ROW = 26.0  # pixels of a line of words, of an option, of a beginning in the tree
COLUMN, COLUMNS = 90.0, 8  # of the tree: pixels, and how many steps are in view
OPTIONS = 6
LEAST = 0.04  # a smaller part of the context is among the rest
LONGER = 230.0  # pixels of the longer side of a picture
BRIGHT = 0.5  # the ceiling of the scale is not below this


def layout_frames(story: ExplanationData) -> list[Figure]:
    """A picture for each piece of the translation, all of one size. Raises UsageError where no search was recorded."""
    if not story.steps:
        raise UsageError("how the translation was found is not known here, so there is nothing to play; show the page")
    return [_frame(story, t) for t in range(len(story.steps))]


Part = tuple[str, Iterable[Mark], float]  # name, marks, the room that they take from the top down


def _frame(story: ExplanationData, t: int) -> Figure:
    """Parts below one another; each takes the same room in every frame."""
    pieces = [(token_label(piece) or "␣", SIZE) for piece in story.tokens[:-1]]
    top, groups = MARGIN, [Group("paper", (Box(0.0, 0.0, WIDTH, _height(story), "paper"),))]
    for name, marks, height in (
        *_read(story, t),
        ("options", _options(story, t), OPTIONS * ROW * 0.8),
        ("written", _written(_wrapped(pieces), t), _lines(_wrapped(pieces)) * ROW),
        ("tree", _tree(story, t), _rows(story) * ROW * 0.85),
    ):
        told = _HEADINGS[name].replace("translation", "caption" if story.image else "translation")
        heading = Text(MARGIN, top + SMALL, told, SMALL, "muted")
        top += SMALL * LINE_HEIGHT + 5
        groups.append(Group(name, (heading, *(_down(mark, top) for mark in marks))))
        top += height + 12
    title = " ".join(story.target if story.image else story.source)
    return Figure(int(WIDTH), int(_height(story)), tuple(groups), title, _description(story, t))


def _read(story: ExplanationData, t: int) -> list[Part]:
    """What was looked at: words and the context that they form, or cells of a picture."""
    if story.image:
        weights = story.shown_weights()[t].reshape(story.image.grid)
        return [("picture", veiled(story.image, weights, MARGIN, 0.0, LONGER), _high(story))]
    words = _wrapped([(word, SIZE) for word in story.source])
    return [("looks", _looks(story, t, words), _lines(words) * ROW), ("context", _context(story, t), 38.0)]


_HEADINGS = {
    "looks": "It looks at the source",
    "picture": "It looks at the picture",
    "context": "What it reads forms one context",
    "options": "What may come next",
    "written": "Written so far",
    "tree": "The search: the translation, beginnings that were kept, ended ■, or given up (grey)",
}


def _height(story: ExplanationData) -> float:
    pieces = [(token_label(piece) or "␣", SIZE) for piece in story.tokens[:-1]]
    read = _high(story) if story.image else _lines(_wrapped([(word, SIZE) for word in story.source])) * ROW + 38
    own = read + _lines(_wrapped(pieces)) * ROW + OPTIONS * ROW * 0.8 + _rows(story) * ROW * 0.85
    parts = 4 if story.image else 5
    return float(math.ceil(own + parts * (SMALL * LINE_HEIGHT + 17) + 2 * MARGIN - 8))


def _high(story: ExplanationData) -> float:
    """The room that a picture takes from the top down."""
    return story.image.size(LONGER)[1] if story.image else 0.0


def _rows(story: ExplanationData) -> int:
    return max(len(step.nodes) for step in story.steps)


Place = tuple[float, float, float, str]  # x, y, width, text


def _wrapped(texts: Sequence[tuple[str, float]]) -> list[Place]:
    """Texts beside one another, in as many lines as they need."""
    x, y, places = MARGIN, 0.0, []
    for text, size in texts:
        text = elide(text, size, WIDTH / 3)
        width = measure(text, size) / 1.1 + 10
        if x + width > WIDTH - MARGIN and x > MARGIN:
            x, y = MARGIN, y + ROW
        places.append((x, y, width, text))
        x += width + 2
    return places


def _lines(places: Sequence[Place]) -> int:
    return 1 + int(places[-1][1] / ROW) if places else 1


def _down(mark: Mark, by: float) -> Mark:
    if isinstance(mark, Line):
        return replace(mark, points=tuple((x, y + by) for x, y in mark.points))
    return replace(mark, y=mark.y + by)


def _looks(story: ExplanationData, t: int, words: Sequence[Place]) -> Iterator[Mark]:
    read = story.shown_weights()[t]
    ceiling = max(BRIGHT, float(read.max()))
    for (x, y, width, text), weight in zip(words, read, strict=True):
        place = level(float(weight), ceiling)
        yield Box(x, y, width, ROW - 3, f"w{place}")
        paint = "ink" if place < 5 else f"v{place}"
        yield Text(x + width / 2, y + ROW / 2 - 1.5 + MIDDLE * SIZE, text, SIZE, paint, "middle")


def _context(story: ExplanationData, t: int) -> Iterator[Mark]:
    """One bar of what is read, in the order of the sentence; the rest stays empty."""
    width, x = WIDTH - 2 * MARGIN, MARGIN
    yield Box(MARGIN, 0.0, width, 32.0, "rule", outline=1.0)
    for word, weight in zip(story.source, story.shown_weights()[t], strict=True):
        if weight < LEAST:
            continue
        part, place = float(weight) * width, max(12, level(float(weight)))
        yield Box(x, 1.0, max(1.0, part - 1), 30.0, f"w{place}")
        label = f"{word} {weight:.2f}"
        if measure(label, 12.0) < part:
            yield Text(x + part / 2, 16 + MIDDLE * 12, label, 12.0, f"v{place}", "middle")
        x += part


def _options(story: ExplanationData, t: int) -> Iterator[Mark]:
    left, bar = MARGIN + 130, WIDTH - 2 * MARGIN - 200
    for i, (piece, chance, taken) in enumerate(story.steps[t].candidates[:OPTIONS]):
        y = i * ROW * 0.8
        text = elide(token_label(piece) or "␣", SIZE, 120.0)
        yield Text(left - 8, y + 8 + MIDDLE * SIZE, text, SIZE, "ink" if taken else "muted", "end")
        yield Box(left, y + 1, max(1.0, chance * bar), 14.0, "w70" if taken else "w30")
        yield Text(left + bar + 60, y + 8 + MIDDLE * 12, f"{100 * chance:.1f} %", 12.0, "muted", "end")


def _written(pieces: Sequence[Place], t: int) -> Iterator[Mark]:
    for p, (x, y, width, text) in enumerate(pieces[: t + 1]):
        yield Text(x + width / 2, y + ROW / 2 - 1.5 + MIDDLE * SIZE, text, SIZE, "ink", "middle")
        if p == t:
            yield Box(x, y, width, ROW - 3, "ink", outline=1.5)


def _tree(story: ExplanationData, t: int) -> Iterator[Mark]:
    """The last steps of the search; a beginning's line comes from the one that it goes on from."""
    first = max(0, t + 1 - COLUMNS)
    for number in range(first, t + 1):
        nodes = story.steps[number].nodes
        for i, node in enumerate(nodes):
            x, y = _spot(number - first, i)
            if number > first or number == 0:
                yield _branch(story, number, node, x, y, first)
        for i, node in enumerate(nodes):
            x, y = _spot(number - first, i)
            text = _label(node)
            paint = "muted" if node.fate == "pruned" and not node.wins else "ink"
            yield Text(x, y + MIDDLE * 12, text, 12.0, paint)
            if node.wins:
                yield Box(x - 3, y + 9, measure(text, 12.0) / 1.1 + 6, 2.0, "link")


def _spot(column: int, row: int) -> tuple[float, float]:
    return MARGIN + 14 + column * COLUMN, row * ROW * 0.85 + 10


def _branch(story: ExplanationData, number: int, node: SearchNode, x: float, y: float, first: int) -> Line:
    start = (MARGIN, 10.0)
    if number:
        px, py = _spot(number - 1 - first, node.parent)
        start = (px + measure(_label(story.steps[number - 1].nodes[node.parent]), 12.0) / 1.1 + 4, py)
    (x1, y1), x2 = start, x - 5
    bend = [(x1 + (x2 - x1) * s, y1 + (y - y1) * (3 - 2 * s) * s * s) for s in (n / 8 for n in range(9))]
    paint = "link" if node.wins else "lattice" if node.fate == "pruned" else "rule"
    return Line(tuple(bend), paint, 2.5 if node.wins else 1.2)


def _label(node: SearchNode) -> str:
    return "■" if node.fate == "ended" else elide(token_label(node.token) or "␣", 12.0, COLUMN - 24)


def _description(story: ExplanationData, t: int) -> str:
    written = "".join(piece.replace("▁", " ") for piece in story.tokens[: t + 1]).strip()
    return f"Step {t + 1} of {len(story.steps)}: {written}"
