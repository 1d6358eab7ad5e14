"""Frames of an animated explanation: the encoder, then attention, context vector, candidates, output and search tree,
token by token.

The page's player shows the same; these frames make a GIF or an animated SVG. Without attention there is instead the
one vector that the decoder gets, and its own state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from regard.common.errors import UsageError
from regard.visualisation.colours import level
from regard.visualisation.encoding import encoding_heading, encoding_height, encoding_marks, vector_marks
from regard.visualisation.explanation_data import ExplanationData, SearchNode, token_label
from regard.visualisation.figure import (
    LINE_HEIGHT,
    MARGIN,
    MIDLINE,
    Box,
    Figure,
    Group,
    Mark,
    Polyline,
    Raster,
    Text,
    curve,
    make_figure,
)
from regard.visualisation.fonts import elide, measure
from regard.visualisation.overlay import veiled

WIDTH = 760.0
SIZE, NODE_SIZE, HEADING_SIZE = 15.0, 12.0, 11.0
ROW, DENSE_ROW = 26.0, 22.1  # pixels of a line of words; of a row of the tree
CANDIDATE_ROW = 20.8
COLUMN, COLUMNS = 90.0, 8  # of the tree: pixels, and how many steps are in view
CANDIDATES = 6
MIN_SHARE = 0.04  # a smaller share of the context is left empty
CONTEXT_HEIGHT = 38.0
IMAGE = 230.0  # pixels of the longer side of an image
MIN_CEILING = 0.5  # the top of the colour scale is not below this
HEADINGS = {
    "source": "Attention to the source",
    "image": "Attention to the image",
    "context": "Context: source words by their weight",
    "words": "Source",
    "picture": "Image",
    "handed-over": "What is handed over: {vectors}, all that the decoder gets of the source",
    "state": "State of the decoder",
    "candidates": "Candidates for the next token",
    "output": "Output so far",
    "tree": "Search tree: the {output}, kept hypotheses, ended ones ■, pruned ones (grey)",
}

Section = tuple[str, Iterable[Mark], float]  # name, marks, height in pixels
Slot = tuple[float, float, float, str]  # x, y and width of a word, and its text


def layout_frames(data: ExplanationData) -> list[Figure]:
    """Lay out a frame for each step of the encoder and each output token, all of one size.

    Raises UsageError if no search was recorded.
    """
    if not data.steps:
        raise UsageError("the search of this output was not recorded, so there is nothing to play; save it as .html")
    count, encoding = len(data.steps), data.encoding_steps
    texts = [f"Step {n + 1} of {encoding + count}: " for n in range(encoding + count)]
    frames = [_encoding_frame(data, e, texts[e]) for e in range(encoding)]
    frames += [_frame(data, t, texts[encoding + t]) for t in range(count)]
    height = float(max(frame.height for frame in frames))
    return [make_figure(float(each.width), height, each.groups[1:], each.title, each.description) for each in frames]


def _encoding_frame(data: ExplanationData, step: int, text: str) -> Figure:
    """Show the encoder at work, in a frame of its own."""
    heading = encoding_heading(data, step)
    top = MARGIN + 14 * LINE_HEIGHT + 10
    marks = tuple(_moved_down(mark, top) for mark in encoding_marks(data, step, WIDTH))
    group = Group("encoder", (Text(MARGIN, MARGIN + 14, heading, 14.0), *marks))
    return make_figure(WIDTH, top + encoding_height(data) + MARGIN, [group], " ".join(data.source), text + heading)


def _frame(data: ExplanationData, t: int, text: str) -> Figure:
    """Stack the sections of step t; each has the same height in every frame."""
    top, groups = MARGIN, []
    vectors = "one vector" if data.states is None or data.states.directions == 1 else "the last state of each direction"
    for name, marks, height in _sections(data, t):
        words = HEADINGS[name].format(output="caption" if data.image else "translation", vectors=vectors)
        heading = Text(MARGIN, top + HEADING_SIZE, words, HEADING_SIZE, "muted")
        top += HEADING_SIZE * LINE_HEIGHT + 5
        groups.append(Group(name, (heading, *(_moved_down(mark, top) for mark in marks))))
        top += height + 12
    title = " ".join(data.target if data.image else data.source)
    output = "".join(token.replace("▁", " ") for token in data.tokens[: t + 1]).strip()
    return make_figure(WIDTH, top + MARGIN - 8, groups, title, text + output)


def _sections(data: ExplanationData, t: int) -> list[Section]:
    output = _wrapped([token_label(token) or "␣" for token in data.tokens[:-1]])
    rows = max(len(step.nodes) for step in data.steps)
    return [
        *_attention_sections(data, t),
        ("candidates", _candidates(data, t), CANDIDATES * CANDIDATE_ROW),
        ("output", _output(output, t), _height(output)),
        ("tree", _tree(data, t), rows * DENSE_ROW),
    ]


def _attention_sections(data: ExplanationData, t: int) -> list[Section]:
    """Return the attention over source words and the context they form, or over the cells of an image.

    Without attention, the vectors that stand in their place.
    """
    if not data.has_cross_attention:
        return _vector_sections(data, t)
    weights = data.shown_weights()[t]
    if data.image:
        marks = veiled(data.image, weights.reshape(data.image.grid), MARGIN, 0.0, IMAGE)
        return [("image", marks, data.image.size(IMAGE)[1])]
    words, shares = _wrapped(data.source), weights.tolist()
    return [
        ("source", _source(words, shares), _height(words)),
        ("context", _context(data.source, shares), CONTEXT_HEIGHT),
    ]


def _vector_sections(data: ExplanationData, t: int) -> list[Section]:
    """Return the image or words, the last state of each direction of the encoder, and the decoder's state."""
    if data.image:
        width, height = data.image.size(IMAGE)
        return [("picture", [Raster(MARGIN, 0.0, width, height, data.image.file())], height)]
    words = _wrapped(data.source)
    sections: list[Section] = [("words", _source(words, [0.0] * len(words)), _height(words))]
    if data.states is not None:
        vectors = data.states.handed_over
        strips = [
            _moved_down(mark, ROW * k) for k, vector in enumerate(vectors) for mark in vector_marks(vector, WIDTH)
        ]
        sections.append(("handed-over", strips, ROW * len(vectors)))
        sections.append(("state", vector_marks(data.states.decoder[t], WIDTH), ROW))
    return sections


def _wrapped(texts: Sequence[str]) -> list[Slot]:
    """Place texts side by side, in as many lines as they need."""
    x, y, slots = MARGIN, 0.0, []
    for text in texts:
        text = elide(text, SIZE, WIDTH / 3)
        width = measure(text, SIZE) / 1.1 + 10
        if x + width > WIDTH - MARGIN and x > MARGIN:
            x, y = MARGIN, y + ROW
        slots.append((x, y, width, text))
        x += width + 2
    return slots


def _height(slots: Sequence[Slot]) -> float:
    return slots[-1][1] + ROW if slots else ROW


def _moved_down(mark: Mark, by: float) -> Mark:
    if isinstance(mark, Polyline):
        return replace(mark, points=tuple((x, y + by) for x, y in mark.points))
    return replace(mark, y=mark.y + by)


def _source(words: Sequence[Slot], weights: Sequence[float]) -> Iterator[Mark]:
    ceiling = max(MIN_CEILING, *weights)
    for (x, y, width, text), weight in zip(words, weights, strict=True):
        shade = level(weight, ceiling)
        yield Box(x, y, width, ROW - 3, f"w{shade}")
        paint = "ink" if shade < 5 else f"v{shade}"
        yield Text(x + width / 2, y + ROW / 2 - 1.5 + MIDLINE * SIZE, text, SIZE, paint, "middle")


def _context(source: Sequence[str], weights: Sequence[float]) -> Iterator[Mark]:
    """Draw one bar of source words in order, as wide as their weights; small weights are left empty."""
    width, x = WIDTH - 2 * MARGIN, MARGIN
    yield Box(MARGIN, 0.0, width, 32.0, "rule", outline=1.0)
    for word, weight in zip(source, weights, strict=True):
        if weight < MIN_SHARE:
            continue
        part, shade = weight * width, max(12, level(weight))
        yield Box(x, 1.0, max(1.0, part - 1), 30.0, f"w{shade}")
        label = f"{word} {weight:.2f}"
        if measure(label, 12.0) < part:
            yield Text(x + part / 2, 16 + MIDLINE * 12, label, 12.0, f"v{shade}", "middle")
        x += part


def _candidates(data: ExplanationData, t: int) -> Iterator[Mark]:
    left, bar = MARGIN + 130, WIDTH - 2 * MARGIN - 200
    for i, (token, probability, chosen) in enumerate(data.steps[t].candidates[:CANDIDATES]):
        y = i * CANDIDATE_ROW
        text = elide(token_label(token) or "␣", SIZE, 120.0)
        yield Text(left - 8, y + 8 + MIDLINE * SIZE, text, SIZE, "ink" if chosen else "muted", "end")
        yield Box(left, y + 1, max(1.0, probability * bar), 14.0, "w70" if chosen else "w30")
        yield Text(left + bar + 60, y + 8 + MIDLINE * 12, f"{100 * probability:.1f} %", 12.0, "muted", "end")


def _output(tokens: Sequence[Slot], t: int) -> Iterator[Mark]:
    for p, (x, y, width, text) in enumerate(tokens[: t + 1]):
        yield Text(x + width / 2, y + ROW / 2 - 1.5 + MIDLINE * SIZE, text, SIZE, "ink", "middle")
        if p == t:
            yield Box(x, y, width, ROW - 3, "ink", outline=1.5)


def _tree(data: ExplanationData, t: int) -> Iterator[Mark]:
    """Draw the last steps of the search; each node is joined to the hypothesis it extends."""
    first = max(0, t + 1 - COLUMNS)
    for number in range(first, t + 1):
        nodes = data.steps[number].nodes
        for i, node in enumerate(nodes):
            if number > first or number == 0:
                yield _branch(data, number, node, _node_position(number - first, i), first)
        for i, node in enumerate(nodes):
            x, y = _node_position(number - first, i)
            label = _node_label(node)
            paint = "muted" if node.fate == "pruned" and not node.wins else "ink"
            yield Text(x, y + MIDLINE * NODE_SIZE, label, NODE_SIZE, paint)
            if node.wins:
                yield Box(x - 3, y + 9, measure(label, NODE_SIZE) / 1.1 + 6, 2.0, "link")


def _node_position(column: int, row: int) -> tuple[float, float]:
    return MARGIN + 14 + column * COLUMN, row * DENSE_ROW + 10


def _branch(data: ExplanationData, number: int, node: SearchNode, end: tuple[float, float], first: int) -> Polyline:
    """Draw the curve from a node's parent to the node at `end`."""
    start = (MARGIN, 10.0)
    if number:
        x, y = _node_position(number - 1 - first, node.parent)
        parent = data.steps[number - 1].nodes[node.parent]
        start = (x + measure(_node_label(parent), NODE_SIZE) / 1.1 + 4, y)
    paint = "link" if node.wins else "grid" if node.fate == "pruned" else "rule"
    return Polyline(curve(start, (end[0] - 5, end[1]), 8), paint, 2.5 if node.wins else 1.2)


def _node_label(node: SearchNode) -> str:
    return "■" if node.fate == "ended" else elide(token_label(node.token) or "␣", NODE_SIZE, COLUMN - 24)
