"""Frames of a Transformer's encoder at work: in each layer words attend to each other."""

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

# Pixels of a row, of its text, and the widest text.
ROW, SIZE, LABEL = 30.0, 16.0, 130.0
# Pixels above the rows for the names of the columns, and of their text.
NAMES, NAME_SIZE = (
    24.0,
    12.0,
)
ROWS, LEAST = 14, 0.02  # words in view; weights below are not drawn
# Pixels of a row that hold a word, and between words that read and those that are read.
STRIP, ARCS = (
    18.0,
    300.0,
)


def encoding_heading(data: ExplanationData, step: int) -> str:
    """Describe what the encoder does in a step."""
    if data.states is None:
        text = (
            "Encoder, layer {layer} of {count}: which words each word (left) attends to"
        )
        return words(text, layer=step + 1, count=len(data.encoder_layers))
    tokens = data.states.tokens
    S = len(data.states.tokens)
    if step == S - 1:
        is_read = "the decoder can attend to each of these states"
        handed = "the outlined states are handed over to the decoder"
        return words(
            f"Encoder: all is read; {is_read if data.has_cross_attention else handed}"
        )
    read = [tokens[step], tokens[S - 1 - step]][: data.states.directions]
    return words("Encoder: it reads ") + words(", from the end ").join(
        map(token_label, read)
    )


def reading_height(data: ExplanationData) -> float:
    """Return the height in pixels of the words that attend to each other."""
    return 0.0 if data.states else NAMES + min(len(data.source), ROWS) * ROW


def reading_marks(source: Sequence[str], layer: LayerWeights) -> Iterator[Mark]:
    """Join each word (left) to the words that it attends to (right), by the mean of the heads."""
    rows = range(min(len(source), ROWS))
    weights = layer.weights.mean(0)
    left = MARGIN + LABEL + 8
    right = left + ARCS
    yield Text(left - 8, NAME_SIZE, words("attends"), NAME_SIZE, "muted", "end")
    yield Text(right + 8, NAME_SIZE, words("is attended to"), NAME_SIZE, "muted")
    top = max(float(weights.max()), 1e-9)
    for t in rows:
        for s in rows:
            if weights[t, s] >= LEAST:
                share = float(weights[t, s]) / top
                points = curve((left, _middle(t)), (right, _middle(s)), 12)
                hint = f"{source[t]} → {source[s]} {weights[t, s]:.2f}"
                yield Polyline(
                    points, f"w{max(6, level(share * 0.8))}", 0.8 + 4 * share, hint
                )
    for row in rows:
        y = _middle(row) + MIDLINE * SIZE
        yield Text(left - 8, y, elide(source[row], SIZE, LABEL), SIZE, "ink", "end")
        yield Text(right + 8, y, elide(source[row], SIZE, LABEL), SIZE, "ink")
    if len(source) > len(rows):
        more = words("… {count} more", count=len(source) - len(rows))
        yield Text(
            right + LABEL + 16,
            _middle(ROWS - 1) + MIDLINE * SIZE,
            more,
            NAME_SIZE,
            "muted",
        )


def _middle(row: int) -> float:
    return NAMES + row * ROW + STRIP / 2
