"""Fake models that damage what they translate, with random word links."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from regard.documents import Document
from regard.text.casing import CaseReader
from regard.text.text_path import PathRules, Request, joint_path, run_path
from regard.text.translation import TranslatedPart, Translation

Model = Callable[[list[str], random.Random], list[str]]
RULES = PathRules(CaseReader(("", ""), lambda text: [*map(ord, text)]))
JUNK = ("7", "{0}", "}", "%s", "9.5")


def reverse(words: list[str], draw: random.Random) -> list[str]:
    return words[::-1]


def drop(words: list[str], draw: random.Random) -> list[str]:
    return [word for word in words if draw.random() < 0.7]


def double(words: list[str], draw: random.Random) -> list[str]:
    return [word for word in words for _ in range(draw.choice((1, 1, 2)))]


def damage(words: list[str], draw: random.Random) -> list[str]:
    return [word + draw.choice(JUNK) if draw.random() < 0.3 else word for word in words]


def replace_digits(words: list[str], draw: random.Random) -> list[str]:
    return [re.sub(r"\d", "9", word) for word in words]


def shuffle_letters(words: list[str], draw: random.Random) -> list[str]:
    return ["".join(draw.sample(word, len(word))) for word in words]


def say_nothing(words: list[str], draw: random.Random) -> list[str]:
    return []


MODELS = [
    reverse,
    drop,
    double,
    damage,
    replace_digits,
    shuffle_letters,
]
"""Models that keep some of their words."""


def decoder(model: Model, seed: int = 0) -> Callable[[Request], Sequence[Translation]]:
    """Return a decoder by a fake model, whose word links are random."""
    draw = random.Random(seed)

    def decode(request: Request) -> list[Translation]:
        results = []
        for line in request.lines:
            words = model(line.split(), draw)
            sources = range(len(line.split()))
            links = [
                (draw.choice(sources), target)
                for target in range(len(words))
                if draw.random() < 0.7
            ]
            result = " ".join(words)
            part = TranslatedPart(line, result, 0.0)
            results.append(Translation(result, (), 0.0, tuple(links), parts=(part,)))
        return results

    return decode


def translate_document(document: Document, model: Model, seed: int = 0) -> bytes:
    """Translate a document by a fake model."""
    path = joint_path(document.paths(RULES))
    return document.render(run_path(path, decoder(model, seed)))
