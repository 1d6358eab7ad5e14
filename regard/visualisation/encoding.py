"""Frames of an encoder at work: the states of a recurrent one grow token by token; in each layer of a Transformer
words read each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from regard.visualisation.colours import level, signed_paint
from regard.visualisation.explanation_data import ExplanationData, LayerWeights, token_label
from regard.visualisation.figure import MARGIN, MIDLINE, Box, Mark, Polyline, Text, curve
from regard.visualisation.fonts import elide
from regard.visualisation.states import States

ROW, SIZE, LABEL = 30.0, 16.0, 130.0  # pixels of a row, of its text, and the widest text
NAMES, NAME_SIZE = 24.0, 12.0  # pixels above the rows for the names of the columns, and of their text
ROWS = 14
"""Tokens in view; of a longer source those around the one that is read."""
NUMBERS, VECTOR_NUMBERS = 32, 64
"""Numbers drawn of a state in a row, and of a vector that stands alone."""
GAP, STRIP = 22.0, 18.0  # pixels between two directions; height of a strip
LEAST = 0.02
"""Weights below are not drawn."""
ARCS = 300.0
"""Pixels between the words that read and those that are read."""


def encoding_heading(data: ExplanationData, step: int) -> str:
    """Describe what the encoder does in a step."""
    if data.states is None:
        return f"Encoder, layer {step + 1} of {len(data.encoder_layers)}: which words each word (left) attends to"
    tokens, S = data.states.tokens, len(data.states.tokens)
    if step == S - 1:
        return "Encoder: all is read; the outlined states are handed over to the decoder"
    read = [tokens[step], tokens[S - 1 - step]][: data.states.directions]
    return "Encoder: it reads " + ", from the end ".join(token_label(token) or "␣" for token in read)


def encoding_height(data: ExplanationData) -> float:
    """Return the height in pixels of every frame of the encoder."""
    rows = len(data.states.tokens) if data.states else len(data.source)
    return NAMES + min(rows, ROWS) * ROW


def encoding_marks(data: ExplanationData, step: int, width: float) -> Iterator[Mark]:
    """Draw a step of the encoder, `width` pixels wide."""
    if data.states is not None:
        yield from _states(data.states, step, width)
    else:
        yield from _reading(data.source, data.encoder_layers[step])


def vector_marks(vector: npt.NDArray[np.float32], width: float) -> Iterator[Mark]:
    """Draw the first numbers of a vector as a strip, in colours that diverge from 0."""
    numbers = vector[:VECTOR_NUMBERS]
    yield from _strip(numbers, MARGIN, 0.0, width - 2 * MARGIN, float(np.abs(numbers).max(initial=0)))


def _in_view(count: int, middle: int) -> range:
    """Return the rows in view: all, or those around one of them."""
    first = min(max(0, middle - ROWS // 2), max(0, count - ROWS))
    return range(first, min(count, first + ROWS))


def _states(states: States, step: int, width: float) -> Iterator[Mark]:
    """Draw a row for each token, with the state of each direction once it has read so far.

    The state that a direction has just computed is outlined; after the last token it is what is handed over.
    """
    S, directions = len(states.tokens), states.directions
    read, largest = states.read_until(step + 1), float(np.abs(states.encoder[..., :NUMBERS]).max(initial=0))
    strip = (width - 2 * MARGIN - LABEL - (directions - 1) * GAP) / directions
    lefts = [MARGIN + LABEL + direction * (strip + GAP) for direction in range(directions)]
    names = ("state, reading forwards ↓", "state, reading backwards ↑")
    yield from (Text(x, NAME_SIZE, name, NAME_SIZE, "muted") for x, name in zip(lefts, names, strict=False))
    for row, place in enumerate(_in_view(S, step)):
        y = NAMES + row * ROW
        label = elide(token_label(states.tokens[place]) or "␣", SIZE, LABEL - 12)
        paint = "ink" if any(place in part for part in read) else "muted"
        yield Text(MARGIN + LABEL - 12, y + STRIP / 2 + MIDLINE * SIZE, label, SIZE, paint, "end")
        for direction, part in enumerate(read):
            x, current = lefts[direction], step if direction == 0 else S - 1 - step
            if place in part:
                yield from _strip(states.encoder[place, direction, :NUMBERS], x, y, strip, largest)
            frame = ("link" if step == S - 1 else "ink", 2.0) if place == current else ("grid", 1.0)
            yield Box(x - 2, y - 2, strip + 4, STRIP + 4, frame[0], outline=frame[1])


def _strip(vector: npt.NDArray[np.float32], x: float, y: float, width: float, largest: float) -> Iterator[Box]:
    cell = width / len(vector)
    for number, value in enumerate(vector.tolist()):
        paint = signed_paint(value / max(largest, 1e-9))
        yield Box(x + number * cell, y, cell, STRIP, paint, f"{value:.2f}".replace("-", "−"))


def _reading(words: Sequence[str], layer: LayerWeights) -> Iterator[Mark]:
    """Join each word (left) to the words that it attends to (right), by the mean of the heads."""
    rows, weights = _in_view(len(words), 0), layer.weights.mean(0)
    left = MARGIN + LABEL + 8
    right = left + ARCS
    yield Text(left - 8, NAME_SIZE, "attends", NAME_SIZE, "muted", "end")
    yield Text(right + 8, NAME_SIZE, "is attended to", NAME_SIZE, "muted")
    top = max(float(weights.max()), 1e-9)
    for t in rows:
        for s in rows:
            if weights[t, s] >= LEAST:
                share = float(weights[t, s]) / top
                points = curve((left, _middle(t)), (right, _middle(s)), 12)
                hint = f"{words[t]} attends to {words[s]} {weights[t, s]:.2f}"
                yield Polyline(points, f"w{max(6, level(share * 0.8))}", 0.8 + 4 * share, hint)
    for row in rows:
        y = _middle(row) + MIDLINE * SIZE
        yield Text(left - 8, y, elide(words[row], SIZE, LABEL), SIZE, "ink", "end")
        yield Text(right + 8, y, elide(words[row], SIZE, LABEL), SIZE, "ink")
    if len(words) > len(rows):
        more = f"… {len(words) - len(rows)} more"
        yield Text(right + LABEL + 16, _middle(ROWS - 1) + MIDLINE * SIZE, more, NAME_SIZE, "muted")


def _middle(row: int) -> float:
    return NAMES + row * ROW + STRIP / 2
