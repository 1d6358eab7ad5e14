"""Frames of an animated explanation: the encoder, then the mechanism, the output and the search
tree, token by token.

The page's player shows the same; these frames make a GIF or an animated SVG.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from regard.common.errors import UsageError
from regard.visualisation import figure as drawing
from regard.visualisation.encoding import (
    encoding_heading,
    reading_height,
    reading_marks,
)
from regard.visualisation.explanation_data import (
    ExplanationData,
    SearchNode,
    token_label,
)
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
)
from regard.visualisation.fonts import elide, measure
from regard.visualisation.language import words
from regard.visualisation.mechanism import SCORES, WEIGHTS, WIDTH, WORD, Diagram
from regard.visualisation.overlay import veiled

SIZE = 15.0
NODE_SIZE = 12.0
HEADING_SIZE = 11.0
ROW, DENSE_ROW = 26.0, 22.1  # pixels of a line of words; of a row of the tree
APART, CLOSE = 12.0, 5.0  # pixels between words, and between the tokens of a word
COLUMN, COLUMNS = 90.0, 8  # of the tree: pixels, and how many steps are in view
IMAGE = 230.0  # pixels of the longer side of an image
HEADINGS = {
    "image": "Attention to the image",
    "picture": "Image",
    "mechanism": "How the next word comes about",
    "output": "Output so far",
    "tree": "Search tree: the {output}, kept hypotheses, ended ones ■, pruned ones (grey)",
}

STAGES = {
    SCORES: "The first word, 1 of 3: the query of the decoder is compared with each state, which "
    "gives its score",
    WEIGHTS: "The first word, 2 of 3: softmax turns the scores into weights α, which sum to 1",
    WORD: "The first word, 3 of 3: the states, each times its weight, sum to c; state and output "
    "layer yield the word",
}

Section = tuple[str, Iterable[Mark], float]  # name, marks, height in pixels
Slot = tuple[float, float, float, str]  # x, y and width of a word, and its text


def layout_frames(data: ExplanationData) -> list[Figure]:
    """Lay out a frame for each step of the encoder, each stage of attention of the first token, and
    each later token.

    Raises UsageError if no search was recorded.
    """
    if not data.steps:
        raise UsageError(
            "the search of this output was not recorded, so there is nothing to play; save it as "
            ".html"
        )
    encoding = data.encoding_steps
    stages = STAGES if data.has_cross_attention else [WORD]
    moments = [
        *((0, stage) for stage in stages),
        *((t, WORD) for t in range(1, len(data.steps))),
    ]
    every = encoding + len(moments)
    texts = [
        words("Step {number} of {count}: ", number=n + 1, count=every)
        for n in range(every)
    ]
    frames = [_encoding_frame(data, e, texts[e]) for e in range(encoding)]
    frames += [
        _frame(data, t, stage, text)
        for (t, stage), text in zip(moments, texts[encoding:], strict=True)
    ]
    height = float(max(frame.height for frame in frames))
    return [
        drawing.make_figure(
            float(each.width), height, each.groups[1:], each.title, each.description
        )
        for each in frames
    ]


def _encoding_frame(data: ExplanationData, step: int, text: str) -> Figure:
    """Show the encoder at work, in a frame of its own."""
    heading = encoding_heading(data, step)
    top = MARGIN + 14 * LINE_HEIGHT + 10
    diagram = Diagram(data)
    below = top + diagram.height + 12
    marks = [_moved_down(mark, top) for mark in diagram.marks(step, None)]
    if data.states is None:
        marks += [
            _moved_down(mark, below)
            for mark in reading_marks(data.source, data.encoder_layers[step])
        ]
    group = Group("encoder", (Text(MARGIN, MARGIN + 14, heading, 14.0), *marks))
    return drawing.make_figure(
        WIDTH,
        below + reading_height(data) + MARGIN,
        [group],
        " ".join(data.source),
        text + heading,
    )


def _frame(data: ExplanationData, t: int, stage: int, text: str) -> Figure:
    """Stack the sections of a stage of step t; each has the same height in every frame."""
    top = MARGIN
    groups = []
    status = words(STAGES[stage]) if t == 0 and data.has_cross_attention else ""
    for name, marks, height in _sections(data, t, stage):
        title = words(
            HEADINGS[name], output=words("caption" if data.image else "translation")
        )
        title = status if name == "mechanism" and status else title
        heading = Text(
            MARGIN,
            top + HEADING_SIZE,
            title,
            HEADING_SIZE,
            "ink" if title == status else "muted",
        )
        top += HEADING_SIZE * LINE_HEIGHT + 5
        groups.append(
            Group(name, (heading, *(_moved_down(mark, top) for mark in marks)))
        )
        top += height + 12
    title = " ".join(data.target if data.image else data.source)
    output = "".join(token.replace("▁", " ") for token in data.tokens[: t + 1]).strip()
    return drawing.make_figure(
        WIDTH, top + MARGIN - 8, groups, title, text + (status or output)
    )


def _sections(data: ExplanationData, t: int, stage: int) -> list[Section]:
    words_of = data.target_words
    goes_on = [p > 0 and word == words_of[p - 1] for p, word in enumerate(words_of)]
    output = _wrapped(
        [token_label(token) * (token != "▁") for token in data.tokens[:-1]], goes_on
    )
    rows = max(len(step.nodes) for step in data.steps)
    diagram = Diagram(data)
    return [
        *_image_sections(data, t),
        ("mechanism", diagram.marks(data.encoding_steps - 1, t, stage), diagram.height),
        (
            "output",
            _output(output, t) if stage == WORD else (),
            (output[-1][1] if output else 0.0) + ROW,
        ),
        ("tree", _tree(data, t) if stage == WORD else (), rows * DENSE_ROW),
    ]


def _image_sections(data: ExplanationData, t: int) -> list[Section]:
    """Return the image, under the attention of this step if the model has attention."""
    if not data.image:
        return []
    width, height = data.image.size(IMAGE)
    if not data.has_cross_attention:
        return [
            ("picture", [Raster(MARGIN, 0.0, width, height, data.image.file())], height)
        ]
    weights = data.shown_weights()[t].reshape(data.image.grid)
    return [("image", veiled(data.image, weights, MARGIN, 0.0, IMAGE), height)]


def _wrapped(texts: Sequence[str], goes_on: Sequence[bool]) -> list[Slot]:
    """Place texts side by side, in as many lines as they need; tokens of a word close together."""
    right = MARGIN - APART
    y = 0.0
    slots = list[Slot]()
    for text, is_close in zip(texts, goes_on, strict=False):
        x = right + (CLOSE if is_close else APART)
        text = elide(text, SIZE, WIDTH / 3)
        width = measure(text, SIZE) / 1.1
        if x + width > WIDTH - MARGIN and slots:
            x = MARGIN
            y = y + ROW
        slots.append((x, y, width, text))
        right = x + width
    return slots


def _moved_down(mark: Mark, by: float) -> Mark:
    if isinstance(mark, Polyline):
        return replace(mark, points=tuple((x, y + by) for x, y in mark.points))
    return replace(mark, y=mark.y + by)


def _output(tokens: Sequence[Slot], t: int) -> Iterator[Mark]:
    for p, (x, y, width, text) in enumerate(tokens[: t + 1]):
        yield Text(
            x + width / 2,
            y + ROW / 2 - 1.5 + MIDLINE * SIZE,
            text,
            SIZE,
            "ink",
            "middle",
        )
        if p == t:
            yield Box(x - 3, y, width + 6, ROW - 3, "ink", outline=1.5)


def _tree(data: ExplanationData, t: int) -> Iterator[Mark]:
    """Draw the last steps of the search; each node is joined to the hypothesis it extends."""
    first = max(0, t + 1 - COLUMNS)
    for number in range(first, t + 1):
        nodes = data.steps[number].nodes
        for i, node in enumerate(nodes):
            if number > first or number == 0:
                yield _branch(
                    data, number, node, _node_position(number - first, i), first
                )
        for i, node in enumerate(nodes):
            x, y = _node_position(number - first, i)
            label = _node_label(node)
            paint = "muted" if node.fate == "pruned" and not node.wins else "ink"
            yield Text(x, y + MIDLINE * NODE_SIZE, label, NODE_SIZE, paint)
            if node.wins:
                yield Box(
                    x - 3, y + 9, measure(label, NODE_SIZE) / 1.1 + 6, 2.0, "link"
                )


def _node_position(column: int, row: int) -> tuple[float, float]:
    return MARGIN + 14 + column * COLUMN, row * DENSE_ROW + 10


def _branch(
    data: ExplanationData,
    number: int,
    node: SearchNode,
    end: tuple[float, float],
    first: int,
) -> Polyline:
    """Draw the curve from a node's parent to the node at `end`."""
    start = (MARGIN, 10.0)
    if number:
        x, y = _node_position(number - 1 - first, node.parent)
        parent = data.steps[number - 1].nodes[node.parent]
        start = (x + measure(_node_label(parent), NODE_SIZE) / 1.1 + 4, y)
    paint = "link" if node.wins else "grid" if node.fate == "pruned" else "rule"
    return Polyline(
        drawing.curve(start, (end[0] - 5, end[1]), 8), paint, 2.5 if node.wins else 1.2
    )


def _node_label(node: SearchNode) -> str:
    return (
        "■"
        if node.fate == "ended"
        else elide(token_label(node.token), NODE_SIZE, COLUMN - 24)
    )
