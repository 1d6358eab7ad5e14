"""Korean captions of the image sample: particles, native numerals, and a counter."""

from __future__ import annotations

import re

from regard.common.reading import package_toml
from regard.learn.samples.hangul import PARTICLES, particle
from regard.learn.samples.images.scene import Entity
from regard.learn.samples.images.wording import Language

TABLES = package_toml("regard.learn.samples.images", "korean.toml")
SHAPES, COLOURS, SIZES, COUNTER = (
    TABLES[name] for name in ("shapes", "colours", "sizes", "counter")
)
COUNTS = {int(count): word for count, word in TABLES["counts"].items()}
MARKED = ("subject", "topic", "object")
ROLES = {text: role for role in MARKED for text in PARTICLES[role]} | {"의": "of"}
SHAPE_OF = {word: shape for shape, word in SHAPES.items()}
COLOUR_OF = {word: colour for colour, word in COLOURS.items()}
SIZE_OF = {word: size for size, word in SIZES.items()}
COUNT_OF = {word: count for count, word in COUNTS.items()}
PATTERN = re.compile(
    rf"(?<!\S)(?:({'|'.join(SIZE_OF)}) )?({'|'.join(COLOUR_OF)}) "
    rf"({'|'.join(SHAPE_OF)})({'|'.join(ROLES)})?"
    rf"(?: ({'|'.join(COUNT_OF)}) {COUNTER}({'|'.join(ROLES)})?)?(?!\S)"
)


def _phrase(entity: Entity, role: str) -> tuple[list[str], int]:
    """Return the words of an entity and the index of its noun.

    The particle of its role is on the last word, or before the number for the role "counted".
    """
    words = [
        *([SIZES[entity.size]] if entity.size else []),
        COLOURS[entity.colour],
        SHAPES[entity.shape],
    ]
    noun = len(words) - 1
    if role == "counted":
        words[-1] = particle(words[-1], "subject")
    if entity.count > 1:
        words += [COUNTS[entity.count], COUNTER]
    if role == "of":
        words[-1] += "의"
    elif role in MARKED:
        words[-1] = particle(words[-1], role)
    return words, noun


def _read(match: re.Match[str]) -> tuple[Entity, str, int]:
    size, colour, shape, early, count, late = match.groups()
    entity = Entity(
        SHAPE_OF[shape], COLOUR_OF[colour], COUNT_OF.get(count, 1), SIZE_OF.get(size)
    )
    return entity, ROLES.get(late or early, ""), 2 if size else 1


KOREAN = Language(TABLES["templates"], TABLES["places"], _phrase, PATTERN, _read, {})
