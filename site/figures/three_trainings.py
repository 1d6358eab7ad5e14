"""Heads of the encoder for three sentences, in three trainings that differ in their seed alone."""

from __future__ import annotations

from collections.abc import Sequence
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
from regard.visualisation.screen import screen_width

SENTENCES = {
    "I didn't build a house yesterday": "build",
    "When Minji cries, she calls the doctor": "she",
    "I will eat bread tonight": "eat",
}
"""Sentences, and the word of each that is chosen first."""
LAYER = 1
"""The layer that is shown first, counted from 0."""
MARGIN_OF_FIRST = 0.1
"""How much more weight than any other a word needs for a head to attend to it clearly."""
TITLE = Text("One sentence in three trainings", "한 문장, 세 번의 학습")
TRAINING = Text("training {number}", "학습 {number}")
WIDE = 110.0, 34.0, 14.0, 30.0, 13.0
END = Text("(end)", "(끝)")
NARROW = 76.0, 22.0, 6.0, 26.0, 12.0
"""The same on a phone; weights have no zero before the point there."""


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
        "margin": MARGIN_OF_FIRST,
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


def clear_place(weights: Sequence[float]) -> int | None:
    """Return the place to which a head attends clearly, if there is one."""
    second, first = sorted(weights)[-2:]
    is_clear = round(first - second, 4) >= MARGIN_OF_FIRST
    return list(weights).index(first) if is_clear else None


def chance(trainings: Sequence[Sequence[int | None]], count: int, size: int) -> float:
    """Return the probability that in so many trainings, or more, a head attends clearly to a given
    place of `size`, if each head that attends clearly to one (`clear_place`) drew it at random.
    """
    probabilities = [1.0]  # of 0, 1, ... trainings
    for places in trainings:
        clear = sum(place is not None for place in places)
        hit = 1 - (1 - 1 / size) ** clear
        probabilities = [
            with_it * hit + without * (1 - hit)
            for with_it, without in zip(
                [0.0, *probabilities], [*probabilities, 0.0], strict=True
            )
        ]
    return sum(probabilities[count:])


def still(data: dict[str, Any], language: Language, state: dict[str, str]) -> Figure:
    """Draw the word of a sentence: rows are words, columns the heads of each training."""
    shown = data["sentences"][int(state.get("sentence", 0))]
    is_narrow = bool(screen_width())
    left, cell, gap, high, size = NARROW if is_narrow else WIDE
    edge = MARGIN / 3 if is_narrow else MARGIN
    marks = list[Mark]()
    names = [*shown["words"], END.by(language)]
    for row, word in enumerate(names):
        y = MARGIN + (row + 1) * high + high * 2 / 3
        marks.append(Label(edge, y, word, size))
    x = left
    for number, layers in enumerate(shown["weights"], 1):
        title = TRAINING.fill(number=number).by(language)
        marks.append(Label(x, MARGIN + 20, title, size, "muted"))
        for head in layers[data["layer"]]:
            for row, weight in enumerate(head[shown["word"]]):
                y = MARGIN + (row + 1) * high
                shade = level(weight)
                marks.append(Box(x, y, cell - 2, high - 2, f"w{shade}"))
                text = f"{weight:.2f}".removeprefix("0" * is_narrow)
                at = x + cell / 2 - 1
                marks.append(
                    Label(
                        at,
                        y + high * 19 / 30,
                        text,
                        10.5 if is_narrow else 11.0,
                        f"v{shade}",
                        "middle",
                    )
                )
            x += cell
        x += gap
    height = MARGIN * 2 + (len(names) + 1) * high
    title = TITLE.by(language)
    return make_figure(x, height, [Group("heads", tuple(marks))], title, title)
