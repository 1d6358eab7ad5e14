"""Korean captions of the image sample: particles, native numerals, and a counter."""

from __future__ import annotations

import re

from regard.common.reading import package_toml
from regard.learn.samples.hangul import PARTICLES, particle
from regard.learn.samples.images.scene import Entity
from regard.learn.samples.images.wording import Language

TABLES = package_toml("regard.learn.samples.images", "korean.toml")
SHAPES = TABLES["shapes"]
COLOURS = TABLES["colours"]
SIZES = TABLES["sizes"]
COUNTER = TABLES["counter"]
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

    The last word bears the particle that marks the role. For the role "counted", the noun bears it,
    and the number follows.
    """
    words = [COLOURS[entity.colour], SHAPES[entity.shape]]
    if entity.size:
        words.insert(0, SIZES[entity.size])
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
    """Return the entity that was matched, its role, and the index of the noun."""
    size, colour, shape, noun_particle, count, counter_particle = match.groups()
    entity = Entity(
        SHAPE_OF[shape], COLOUR_OF[colour], COUNT_OF.get(count, 1), SIZE_OF.get(size)
    )
    role = ROLES.get(counter_particle or noun_particle, "")
    return entity, role, 2 if size else 1


KOREAN = Language(TABLES["templates"], TABLES["places"], _phrase, PATTERN, _read, {})
