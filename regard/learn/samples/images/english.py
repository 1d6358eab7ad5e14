"""English captions of the image sample."""

from __future__ import annotations

import re

from regard.learn.samples.images.scene import COLOURS, SHAPES, SIZES, Entity
from regard.learn.samples.images.wording import Language

PLURALS = {shape: "crosses" if shape == "cross" else f"{shape}s" for shape in SHAPES}
SHAPE_OF = {word: shape for shape, plural in PLURALS.items() for word in (shape, plural)}
COUNTS = {2: "two", 3: "three", 4: "four"}
COUNT_OF = {word: count for count, word in COUNTS.items()}
PLACES = {
    "top left": "in the top left corner",
    "top": "at the top",
    "top right": "in the top right corner",
    "left": "on the left",
    "middle": "in the middle",
    "right": "on the right",
    "bottom left": "in the bottom left corner",
    "bottom": "at the bottom",
    "bottom right": "in the bottom right corner",
}
TEMPLATES = {
    "alone": ("A", "there is A", "a picture of A"),
    "at": ("A PLACE", "there is A PLACE", "A is PLACE"),
    "left": (
        "A to the left of B",
        "there is A to the left of B",
        "A is to the left of B",
        "A on the left and B on the right",
        "B to the right of A",
        "B is to the right of A",
    ),
    "above": (
        "A above B",
        "there is A above B",
        "A is above B",
        "A at the top and B at the bottom",
        "B below A",
        "B is below A",
    ),
    "inside": ("A inside B", "there is A inside B", "A is inside B", "B around A", "B with A inside"),
}
PATTERN = re.compile(
    rf"\b(?:(an?|{'|'.join(COUNT_OF)}) )(?:({'|'.join(SIZES)}) )?({'|'.join(COLOURS)}) ({'|'.join(SHAPE_OF)})(?!\S)"
)


def _phrase(entity: Entity, _role: str) -> tuple[list[str], int]:
    """Return the words of an entity with its article or number, and the index of the noun."""
    words = [*([entity.size] if entity.size else []), entity.colour]
    if entity.count > 1:
        words = [COUNTS[entity.count], *words, PLURALS[entity.shape]]
    else:
        words = ["an" if words[0][0] in "aeiou" else "a", *words, entity.shape]
    return words, len(words) - 1


def _read(match: re.Match[str]) -> tuple[Entity, str, int]:
    count, size, colour, noun = match.groups()
    return Entity(SHAPE_OF[noun], colour, COUNT_OF.get(count, 1), size), "", match[0].count(" ")


ENGLISH = Language(TEMPLATES, PLACES, _phrase, PATTERN, _read, {"is": "are"})
