"""English captions of the image sample."""

from __future__ import annotations

import re

from regard.common.reading import package_toml
from regard.learn.samples.images.scene import COLOURS, SHAPES, SIZES, Entity
from regard.learn.samples.images.wording import Language

PLURALS = {shape: "crosses" if shape == "cross" else f"{shape}s" for shape in SHAPES}
SHAPE_OF = {
    word: shape for shape, plural in PLURALS.items() for word in (shape, plural)
}
TABLES = package_toml("regard.learn.samples.images", "english.toml")
COUNTS = {int(count): word for count, word in TABLES["counts"].items()}
COUNT_OF = {word: count for count, word in COUNTS.items()}
PATTERN = re.compile(
    rf"\b(?:(an?|{'|'.join(COUNT_OF)}) )(?:({'|'.join(SIZES)}) )?"
    rf"({'|'.join(COLOURS)}) ({'|'.join(SHAPE_OF)})(?!\S)"
)


def _phrase(entity: Entity, _role: str) -> tuple[list[str], int]:
    """Return the words of an entity with its article or number, and the index of the noun."""
    words = [entity.size, entity.colour] if entity.size else [entity.colour]
    if entity.count > 1:
        words = [COUNTS[entity.count], *words, PLURALS[entity.shape]]
    else:
        words = ["an" if words[0][0] in "aeiou" else "a", *words, entity.shape]
    return words, len(words) - 1


def _read(match: re.Match[str]) -> tuple[Entity, str, int]:
    """Return the entity that was matched, its role (English marks none), and the noun's index."""
    count, size, colour, noun = match.groups()
    entity = Entity(SHAPE_OF[noun], colour, COUNT_OF.get(count, 1), size)
    return entity, "", match[0].count(" ")


ENGLISH = Language(
    TABLES["templates"], TABLES["places"], _phrase, PATTERN, _read, TABLES["plurals"]
)
