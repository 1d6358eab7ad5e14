"""Frames of an animated explanation: first the encoder, then the mechanism, the output and the
search tree, token by token.

The frames make a GIF or an animated SVG; the player of the page shows the same.
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
from regard.visualisation.fonts import elide, measure, wrap
from regard.visualisation.language import words
from regard.visualisation.mechanism import (
    SCORES,
    WEIGHTS,
    WORD,
    Diagram,
    diagram_width,
)
from regard.visualisation.overlay import veiled
from regard.visualisation.screen import screen_width

SIZE = 15.0  # text size of the output
NODE_SIZE = 12.0  # text size in the search tree
HEADING_SIZE = 11.0  # text size of a section's heading
ROW = 26.0  # pixels: height of a line of words
DENSE_ROW = 22.1  # pixels: height of a row of the search tree
APART = 12.0  # pixels between words
CLOSE = 5.0  # pixels between the tokens of a word
COLUMN = 90.0  # pixels: width of a step of the search tree
COLUMNS = 8  # steps of the search tree in view
NARROW_COLUMN, NARROW_COLUMNS = 67.0, 5  # the same on a small screen
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
    """Lay out a frame for each step of the encoder, each stage of the first token, and each later
    token.

    Raises UsageError if no search was recorded.
    """
    if not data.steps:
        raise UsageError(
            "the search of this output was not recorded, so there is nothing to play; save it as "
            ".html"
        )
    moments = [(0, stage) for stage in (STAGES if data.has_cross_attention else [WORD])]
    moments += [(t, WORD) for t in range(1, len(data.steps))]
    count = data.encoding_steps + len(moments)

    frames = list[Figure]()
    for step in range(data.encoding_steps):
        text = words("Step {number} of {count}: ", number=step + 1, count=count)
        frames.append(_encoding_frame(data, step, text))
    for number, (t, stage) in enumerate(moments, data.encoding_steps + 1):
        text = words("Step {number} of {count}: ", number=number, count=count)
        frames.append(_frame(data, t, stage, text))

    height = float(max(frame.height for frame in frames))
    return [_resized(frame, height) for frame in frames]


def _resized(frame: Figure, height: float) -> Figure:
    """Draw a figure again on paper of another height."""
    without_paper = frame.groups[1:]
    return drawing.make_figure(
        float(frame.width), height, without_paper, frame.title, frame.description
    )


def _encoding_frame(data: ExplanationData, step: int, text: str) -> Figure:
    """Lay out the frame of one step of the encoder."""
    heading = encoding_heading(data, step)
    top = MARGIN + 14 * LINE_HEIGHT + 10
    diagram = Diagram(data)
    below = top + diagram.height + 12
    marks = [moved_down(mark, top) for mark in diagram.marks(step, None)]
    if data.states is None:
        marks += [
            moved_down(mark, below)
            for mark in reading_marks(data.source, data.encoder_layers[step])
        ]
    lines = wrap(heading, 14.0, diagram_width() - 2 * MARGIN)
    title = [
        Text(MARGIN, MARGIN + 19 * n + 14, line, 14.0) for n, line in enumerate(lines)
    ]
    group = Group("encoder", (*title, *marks))
    return drawing.make_figure(
        diagram_width(),
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
    kind = words("caption" if data.image else "translation")
    for name, marks, height in _sections(data, t, stage):
        title = words(HEADINGS[name], output=kind)
        if name == "mechanism" and status:
            title = status
        paint = "ink" if title == status else "muted"
        heading = list[Mark]()
        for line in wrap(title, HEADING_SIZE, diagram_width() - 2 * MARGIN):
            heading.append(Text(MARGIN, top + HEADING_SIZE, line, HEADING_SIZE, paint))
            top += HEADING_SIZE * LINE_HEIGHT
        top += 5
        moved = [moved_down(mark, top) for mark in marks]
        groups.append(Group(name, (*heading, *moved)))
        top += height + 12
    title = " ".join(data.target if data.image else data.source)
    output = "".join(token.replace("▁", " ") for token in data.tokens[: t + 1]).strip()
    return drawing.make_figure(
        diagram_width(), top + MARGIN - 8, groups, title, text + (status or output)
    )


def _sections(data: ExplanationData, t: int, stage: int) -> list[Section]:
    """Return the sections of a frame; output and search tree are empty until the last stage."""
    labels = ["" if token == "▁" else token_label(token) for token in data.tokens[:-1]]
    token_words = data.target_words
    continues_word = [
        p > 0 and word == token_words[p - 1] for p, word in enumerate(token_words)
    ]
    output = _wrapped(labels, continues_word)
    output_height = (output[-1][1] if output else 0.0) + ROW
    tree_height = max(len(step.nodes) for step in data.steps) * DENSE_ROW
    diagram = Diagram(data)
    diagram_marks = diagram.marks(data.encoding_steps - 1, t, stage)
    has_word = stage == WORD
    return [
        *_image_sections(data, t),
        ("mechanism", diagram_marks, diagram.height),
        ("output", _output(output, t) if has_word else (), output_height),
        ("tree", _tree(data, t) if has_word else (), tree_height),
    ]


def _image_sections(data: ExplanationData, t: int) -> list[Section]:
    """Return the image, under the attention of this step if the model has attention."""
    if not data.image:
        return []
    width, height = data.image.size(IMAGE)
    if not data.has_cross_attention:
        image = Raster(MARGIN, 0.0, width, height, data.image.file())
        return [("picture", [image], height)]
    weights = data.shown_weights()[t].reshape(data.image.grid)
    return [("image", veiled(data.image, weights, MARGIN, 0.0, IMAGE), height)]


def _wrapped(texts: Sequence[str], continues_word: Sequence[bool]) -> list[Slot]:
    """Place texts side by side, in as many lines as they need; the tokens of a word stand close
    together.
    """
    right = MARGIN - APART
    y = 0.0
    slots = list[Slot]()
    for text, is_close in zip(texts, continues_word, strict=False):
        x = right + (CLOSE if is_close else APART)
        text = elide(text, SIZE, diagram_width() / 3)
        width = measure(text, SIZE) / 1.1
        if x + width > diagram_width() - MARGIN and slots:
            x = MARGIN
            y = y + ROW
        slots.append((x, y, width, text))
        right = x + width
    return slots


def moved_down(mark: Mark, by: float, right: float = 0.0) -> Mark:
    """Return a mark further down, and perhaps further to the right, by so many pixels."""
    if isinstance(mark, Polyline):
        return replace(mark, points=tuple((x + right, y + by) for x, y in mark.points))
    return replace(mark, x=mark.x + right, y=mark.y + by)


def _output(tokens: Sequence[Slot], t: int) -> Iterator[Mark]:
    """Write the tokens up to step t, and frame the last one."""
    for p, (x, y, width, text) in enumerate(tokens[: t + 1]):
        baseline = y + ROW / 2 - 1.5 + MIDLINE * SIZE
        yield Text(x + width / 2, baseline, text, SIZE, "ink", "middle")
        if p == t:
            yield Box(x - 3, y, width + 6, ROW - 3, "ink", outline=1.5)


def _tree(data: ExplanationData, t: int) -> Iterator[Mark]:
    """Draw the last steps of the search; each node is joined to the hypothesis it extends."""
    columns, _ = _tree_columns()
    first = max(0, t + 1 - columns)
    for step in range(first, t + 1):
        nodes = data.steps[step].nodes
        if step > first or step == 0:
            for row, node in enumerate(nodes):
                end = _node_position(step - first, row)
                yield _branch(data, step, node, end, first)
        for row, node in enumerate(nodes):
            x, y = _node_position(step - first, row)
            label = _node_label(node)
            paint = "muted" if node.fate == "pruned" and not node.wins else "ink"
            yield Text(x, y + MIDLINE * NODE_SIZE, label, NODE_SIZE, paint)
            if node.wins:
                width = measure(label, NODE_SIZE) / 1.1 + 6
                yield Box(x - 3, y + 9, width, 2.0, "link")


def _tree_columns() -> tuple[int, float]:
    """Return how many steps of the search tree are in view, and the width of each."""
    return (NARROW_COLUMNS, NARROW_COLUMN) if screen_width() else (COLUMNS, COLUMN)


def _node_position(column: int, row: int) -> tuple[float, float]:
    _, width = _tree_columns()
    return MARGIN + 14 + column * width, row * DENSE_ROW + 10


def _branch(
    data: ExplanationData,
    step: int,
    node: SearchNode,
    end: tuple[float, float],
    first: int,
) -> Polyline:
    """Draw the curve from a node's parent to the node at `end`; `first` is the first step in
    view.
    """
    start = (MARGIN, 10.0)
    if step:
        x, y = _node_position(step - 1 - first, node.parent)
        parent = data.steps[step - 1].nodes[node.parent]
        start = (x + measure(_node_label(parent), NODE_SIZE) / 1.1 + 4, y)
    points = drawing.curve(start, (end[0] - 5, end[1]), 8)
    if node.wins:
        return Polyline(points, "link", 2.5)
    return Polyline(points, "grid" if node.fate == "pruned" else "rule", 1.2)


def _node_label(node: SearchNode) -> str:
    if node.fate == "ended":
        return "■"
    _, width = _tree_columns()
    return elide(token_label(node.token), NODE_SIZE, width - 12)
