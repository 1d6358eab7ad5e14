"""Heads of the encoder for three sentences, in three trainings that differ in their seed alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import trainings

import regard
from regard.attention.alignment import Readings
from regard.common.bilingual import Language, Text
from regard.pipeline import Translator
from regard.visualisation.colours import level
from regard.visualisation.figure import (
    MARGIN,
    Box,
    Figure,
    Group,
    Mark,
    make_figure,
)
from regard.visualisation.figure import Text as Label

SENTENCES = {
    "I didn't build a house yesterday": "build",
    "When Minji cries, she calls the doctor": "she",
    "I will eat bread tonight": "eat",
}
"""Sentences, and the word of each that is chosen first."""
LAYER = 1
"""The layer that is shown first, counted from 0."""
TITLE = Text("One sentence in three trainings", "한 문장, 세 번의 학습")
TRAINING = Text("training {number}", "학습 {number}")
LEFT, CELL, GAP, ROW, SIZE = 110.0, 34.0, 14.0, 30.0, 13.0


def make() -> dict[str, Any]:
    """Return the weights between words: training, layer, head, reading word, word read; the last
    one is on the end of the sentence.
    """
    translators = [
        regard.load(trainings.trained("english", seed)) for seed in trainings.SEEDS
    ]
    return {
        "seeds": list(trainings.SEEDS),
        "layer": LAYER,
        "sentences": [
            sentence(translators, text, word) for text, word in SENTENCES.items()
        ],
    }


def sentence(translators: list[Translator], text: str, word: str) -> dict[str, Any]:
    """Return words and weights of a sentence."""
    weights = []
    for translator in translators:
        (translation,) = translator.translate([text], readings=True)
        readings = translation.readings
        assert readings is not None, "readings were requested"
        weights.append(
            [_heads(readings, layer) for layer in readings.layers("encoder")]
        )
    words = text.split()
    return {"text": text, "words": words, "word": words.index(word), "weights": weights}


def _heads(readings: Readings, layer: str) -> list[list[list[float]]]:
    heads = []
    for head in range(len(readings.weights[layer])):
        between = readings.words(layer, head)
        matrix = np.concatenate(
            [between.weights, between.special_weights[:, None]], axis=1
        )
        heads.append([[round(float(w), 4) for w in row] for row in matrix])
    return heads


def still(data: dict[str, Any], language: Language, state: dict[str, str]) -> Figure:
    """Draw the word of a sentence: rows are words, columns the heads of each training."""
    shown = data["sentences"][int(state.get("sentence", 0))]
    marks = list[Mark]()
    for row, word in enumerate(shown["words"]):
        y = MARGIN + (row + 1) * ROW + 20
        marks.append(Label(MARGIN, y, word, SIZE))
    x = LEFT
    for number, layers in enumerate(shown["weights"], 1):
        title = TRAINING.fill(number=number).by(language)
        marks.append(Label(x, MARGIN + 20, title, SIZE, "muted"))
        for head in layers[data["layer"]]:
            for row, weight in enumerate(head[shown["word"]][:-1]):
                y = MARGIN + (row + 1) * ROW
                shade = level(weight)
                marks.append(Box(x, y, CELL - 2, ROW - 2, f"w{shade}"))
                text = f"{weight:.2f}"
                at = x + CELL / 2 - 1
                marks.append(Label(at, y + 19, text, 11, f"v{shade}", "middle"))
            x += CELL
        x += GAP
    height = MARGIN * 2 + (len(shown["words"]) + 1) * ROW
    title = TITLE.by(language)
    return make_figure(x, height, [Group("heads", tuple(marks))], title, title)
