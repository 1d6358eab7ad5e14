"""Korean captions of the image sample: particles, native numerals, and a counter."""

from __future__ import annotations

import re

from regard.learn.samples.hangul import PARTICLES, particle
from regard.learn.samples.images.scene import Entity
from regard.learn.samples.images.wording import Language

SHAPES = {
    "circle": "동그라미",
    "square": "네모",
    "triangle": "세모",
    "star": "별",
    "cross": "십자가",
    "heart": "하트",
}
COLOURS = {
    "red": "빨간",
    "orange": "주황색",
    "yellow": "노란",
    "green": "초록색",
    "blue": "파란",
    "purple": "보라색",
    "pink": "분홍색",
    "black": "검은",
}
SIZES = {"small": "작은", "large": "큰"}
COUNTS = {2: "두", 3: "세", 4: "네"}
COUNTER = "개"
PLACES = {
    "top left": "왼쪽 위에",
    "top": "위쪽에",
    "top right": "오른쪽 위에",
    "left": "왼쪽에",
    "middle": "가운데에",
    "right": "오른쪽에",
    "bottom left": "왼쪽 아래에",
    "bottom": "아래쪽에",
    "bottom right": "오른쪽 아래에",
}
TEMPLATES = {
    "alone": ("A/counted 있다", "A/subject 있다", "A/subject 보인다"),
    "at": ("PLACE A/subject 있다", "A/subject PLACE 있다", "PLACE A/subject 보인다"),
    "left": (
        "B 왼쪽에 A/subject 있다",
        "B/of 왼쪽에 A/subject 있다",
        "A/subject B 왼쪽에 있다",
        "A/topic 왼쪽에, B/topic 오른쪽에 있다",
        "A 오른쪽에 B/subject 있다",
        "B/subject A 오른쪽에 있다",
    ),
    "above": (
        "B 위에 A/subject 있다",
        "A/subject B 위에 있다",
        "B/of 위쪽에 A/subject 있다",
        "A/topic 위에, B/topic 아래에 있다",
        "A 아래에 B/subject 있다",
        "B/subject A 아래에 있다",
    ),
    "inside": (
        "B 안에 A/subject 있다",
        "A/subject B 안에 있다",
        "B/subject A/object 둘러싸고 있다",
    ),
}
MARKED = ("subject", "topic", "object")
ROLES = {text: role for role in MARKED for text in PARTICLES[role]} | {"의": "of"}


SHAPE_OF = {word: shape for shape, word in SHAPES.items()}
COLOUR_OF = {word: colour for colour, word in COLOURS.items()}
SIZE_OF = {word: size for size, word in SIZES.items()}
COUNT_OF = {word: count for count, word in COUNTS.items()}
PATTERN = re.compile(
    rf"(?<!\S)(?:({'|'.join(SIZE_OF)}) )?({'|'.join(COLOUR_OF)}) ({'|'.join(SHAPE_OF)})({'|'.join(ROLES)})?"
    rf"(?: ({'|'.join(COUNT_OF)}) {COUNTER}({'|'.join(ROLES)})?)?(?!\S)"
)


def _phrase(entity: Entity, role: str) -> tuple[list[str], int]:
    """Return the words of an entity and the index of its noun.

    The particle of its role is on the last word, or before the number for the role "counted".
    """
    words = [*([SIZES[entity.size]] if entity.size else []), COLOURS[entity.colour], SHAPES[entity.shape]]
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
    entity = Entity(SHAPE_OF[shape], COLOUR_OF[colour], COUNT_OF.get(count, 1), SIZE_OF.get(size))
    return entity, ROLES.get(late or early, ""), 2 if size else 1


KOREAN = Language(TEMPLATES, PLACES, _phrase, PATTERN, _read, {})
