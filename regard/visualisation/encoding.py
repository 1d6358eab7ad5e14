"""Frames that show the encoder at work: in each layer of a Transformer, words attend to each other.

The states of a recurrent encoder are drawn in `mechanism`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.visualisation.colours import level
from regard.visualisation.explanation_data import (
    ExplanationData,
    LayerWeights,
    token_label,
)
from regard.visualisation.figure import MARGIN, MIDLINE, Mark, Polyline, Text, curve
from regard.visualisation.fonts import elide
from regard.visualisation.language import words
from regard.visualisation.screen import screen_width

ROW = 30.0  # pixels: height of a word's row
STRIP = 18.0  # pixels: height of the word in its row
SIZE = 16.0  # text size of a word
LABEL = 130.0  # pixels of the widest word
NARROW_LABEL = 90.0  # the same on a small screen
NAMES = 24.0  # pixels above the rows for the names of the columns
NAME_SIZE = 12.0  # text size of these names
ROWS = 14  # largest number of words
LEAST = 0.02  # smaller weights are not drawn
ARCS = 300.0  # pixels between the attending words and the attended words


def encoding_heading(data: ExplanationData, step: int) -> str:
    """Describe what the encoder does in a step."""
    if data.states is None:
        text = (
            "Encoder, layer {layer} of {count}: which words each word (left) attends to"
        )
        return words(text, layer=step + 1, count=len(data.encoder_layers))
    tokens = data.states.tokens
    S = len(tokens)
    if step == S - 1:
        result = "the outlined states are handed over to the decoder"
        if data.has_cross_attention:
            result = "the decoder can attend to each of these states"
        return words(f"Encoder: all is read; {result}")
    read = [token_label(tokens[step])]
    if data.states.directions == 2:
        read.append(token_label(tokens[S - 1 - step]))
    return words("Encoder: it reads ") + words(", from the end ").join(read)


def reading_height(data: ExplanationData) -> float:
    """Return the height in pixels of the words that attend to each other; 0 for a recurrent
    encoder.
    """
    return 0.0 if data.states else NAMES + min(len(data.source), ROWS) * ROW


def reading_marks(source: Sequence[str], layer: LayerWeights) -> Iterator[Mark]:
    """Join each word (left) to the words that it attends to (right), by the mean of the heads."""
    rows = range(min(len(source), ROWS))
    weights = layer.weights.mean(0)
    narrow = screen_width()
    label = NARROW_LABEL if narrow else LABEL
    left = MARGIN + label + 8
    right = narrow - left if narrow else left + ARCS
    yield Text(left - 8, NAME_SIZE, words("attends"), NAME_SIZE, "muted", "end")
    yield Text(right + 8, NAME_SIZE, words("is attended to"), NAME_SIZE, "muted")
    largest = max(float(weights.max()), 1e-9)
    for t in rows:
        for s in rows:
            if weights[t, s] >= LEAST:
                share = float(weights[t, s]) / largest
                points = curve((left, _middle(t)), (right, _middle(s)), 12)
                paint = f"w{max(6, level(share * 0.8))}"
                hint = f"{source[t]} → {source[s]} {weights[t, s]:.2f}"
                yield Polyline(points, paint, 0.8 + 4 * share, hint)
    for row in rows:
        y = _middle(row) + MIDLINE * SIZE
        yield Text(left - 8, y, elide(source[row], SIZE, label), SIZE, "ink", "end")
        yield Text(right + 8, y, elide(source[row], SIZE, label), SIZE, "ink")
    if len(source) > len(rows):
        text = words("… {count} more", count=len(source) - len(rows))
        y = _middle(ROWS - 1) + MIDLINE * SIZE
        yield Text(right + label + 16, y, text, NAME_SIZE, "muted")


def _middle(row: int) -> float:
    return NAMES + row * ROW + STRIP / 2
