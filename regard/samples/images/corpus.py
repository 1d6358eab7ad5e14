"""Scenes drawn by chance, in splits whose test shows what training never showed together.

Each colour of each shape occurs in training, and each number, relation and place with each colour and each shape; what
does not is all three together, such as a red circle left of something, three green stars, or a blue heart at the top.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from regard.data.text import write_lines
from regard.samples.images.drawing import draw
from regard.samples.images.english import ENGLISH
from regard.samples.images.korean import KOREAN
from regard.samples.images.scene import (
    COLOURS,
    PLACES,
    RELATIONS,
    SHAPES,
    SIDE,
    Box,
    Fact,
    Meaning,
    Scene,
    Thing,
)
from regard.samples.images.wording import Caption, Language

__all__ = ["LANGUAGES", "UNSEEN", "Captioned", "PictureSample", "pictures"]

LANGUAGES: dict[str, Language] = {"en": ENGLISH, "ko": KOREAN}
STANDS = (*(f"{which} {relation}" for relation in RELATIONS for which in ("first", "second")), *PLACES, 2, 3, 4)
UNSEEN: frozenset[Fact] = frozenset(
    (stands, colour, SHAPES[(i + j) % len(SHAPES)])
    for i, stands in enumerate(STANDS)
    for j, colour in enumerate(COLOURS)
)
"""What only the test shows, as `Scene.combinations` names it: of each colour one shape for each role, place, number."""
LARGE, SMALL, AROUND = (22, 25), (14, 16), (32, 36)  # pixels: least and greatest side of a thing
MANY = (12, 14)  # of one of several
WORDINGS = 3  # captions of a picture in each language
EDGE, GAP = 2, 4  # pixels to the edge, and between things
TRIES = 60


@dataclass(frozen=True)
class Captioned:
    """A scene, the name of its picture, and its captions by language."""

    file: str
    scene: Scene
    captions: dict[str, tuple[Caption, ...]]


@dataclass(frozen=True)
class PictureSample:
    """Captioned scenes in named splits: "train", "valid" and "test"."""

    splits: dict[str, tuple[Captioned, ...]]

    def write(self, folder: str | Path) -> None:
        """Write pictures into `folder`/images, and for each split captions ("train.en.tsv": file, tab, caption) and
        where their nouns are ("train.regions.jsonl").

        A line of the latter names the file, the language, which of the picture's captions it is and which word the noun
        is, and holds boxes [left, top, right, bottom] in pixels. Files are written beside and renamed.
        """
        folder = Path(folder)
        (folder / "images").mkdir(parents=True, exist_ok=True)
        for name, some in self.splits.items():
            for each in some:
                draw(each.scene).save(folder / "images" / each.file)
            for language in LANGUAGES:
                lines = (f"{each.file}\t{caption.text}" for each in some for caption in each.captions[language])
                write_lines(folder / f"{name}.{language}.tsv", lines)
            write_lines(folder / f"{name}.regions.jsonl", (line for each in some for line in _regions(each)))


def _regions(one: Captioned) -> Iterable[str]:
    for language, captions in one.captions.items():
        for number, caption in enumerate(captions):
            for word, thing in caption.nouns:
                place = {"file": one.file, "language": language, "caption": number, "word": word}
                yield json.dumps({**place, "boxes": one.scene.region(thing)})


def pictures(train: int = 6000, valid: int = 200, test: int = 400, seed: int = 1) -> PictureSample:
    """The sample: so many pictures in each split, the same for the same seed."""
    rng = Random(f"pictures {seed}")
    sizes = {"train": train, "valid": valid, "test": test}
    return PictureSample(
        {
            name: tuple(_captioned(rng, f"{name}-{number:05}.png", name == "test") for number in range(size))
            for name, size in sizes.items()
        }
    )


def _captioned(rng: Random, file: str, is_unseen: bool) -> Captioned:
    scene = _scene(rng, is_unseen)
    captions = {}
    for name, language in LANGUAGES.items():
        wordings = language.captions(scene.meaning)
        captions[name] = tuple(rng.sample(wordings, min(WORDINGS, len(wordings))))
    return Captioned(file, scene, captions)


def _scene(rng: Random, is_unseen: bool) -> Scene:
    """One with a combination that training does not show, or one without any."""
    while True:
        meaning = _meaning(rng)
        scene = Scene(meaning, (), rng.getrandbits(31))
        if is_unseen == UNSEEN.isdisjoint(scene.combinations()):
            continue
        boxes = _placed(rng, meaning)
        if boxes:
            return Scene(meaning, boxes, scene.look)


# --- what is seen


def _meaning(rng: Random) -> Meaning:
    kind = rng.choices(("at", "alone", *RELATIONS), (4, 3, 5, 5, 3))[0]
    if kind == "at":
        return Meaning((_thing(rng, 1),), None, rng.choice(PLACES))
    if kind == "alone":
        return Meaning((_thing(rng, rng.randint(2, 4)),))
    one, other = _different(rng)
    if kind == "inside":
        outer = Thing(rng.choice(("circle", "square")), other.colour)
        return Meaning((Thing(one.shape, one.colour), outer), kind)
    return Meaning((one, other), kind)


def _thing(rng: Random, count: int) -> Thing:
    size = rng.choice(("small", "large")) if count == 1 else None
    return Thing(rng.choice(SHAPES), rng.choice(COLOURS), count, size)


def _different(rng: Random) -> tuple[Thing, Thing]:
    """Two things of different shapes and colours."""
    shapes, colours = rng.sample(SHAPES, 2), rng.sample(COLOURS, 2)
    found = []
    for shape, colour in zip(shapes, colours, strict=True):
        count = rng.choices((1, 2, 3), (6, 3, 1))[0]
        found.append(Thing(shape, colour, count, rng.choice(("small", "large")) if count == 1 else None))
    return found[0], found[1]


# --- where it is


def _placed(rng: Random, meaning: Meaning) -> tuple[tuple[Box, ...], ...]:
    """Boxes of everything that is seen; none where no room was found."""
    if meaning.relation == "inside":
        return _inside(rng)
    boxes: list[tuple[Box, ...]] = []
    for number, thing in enumerate(meaning.things):
        room = _room(meaning, number)
        some = _in_place(rng, thing, meaning.place) if meaning.place else _scattered(rng, thing, room)
        if not some:
            return ()
        boxes.append(some)
    return tuple(boxes) if _stand(meaning.relation, boxes) else ()


def _inside(rng: Random) -> tuple[tuple[Box, ...], ...]:
    outer, inner = rng.randint(*AROUND), rng.randint(*SMALL)
    left, top = (rng.randint(EDGE, SIDE - EDGE - outer) for _ in range(2))
    x, y = (near + (outer - inner) // 2 + rng.randint(-2, 2) for near in (left, top))
    return ((Box(x, y, x + inner, y + inner),), (Box(left, top, left + outer, top + outer),))


def _side(rng: Random, thing: Thing) -> int:
    return rng.randint(*{"small": SMALL, "large": LARGE, None: MANY}[thing.size])


def _in_place(rng: Random, thing: Thing, place: str) -> tuple[Box, ...]:
    """One thing, its middle in the third of the picture that the place names."""
    side, words = _side(rng, thing), place.split()
    column = "left" in words, "right" in words
    row = "top" in words, "bottom" in words
    x, y = (_along(rng, side, *ends) for ends in (column, row))
    return (Box(x, y, x + side, y + side),)


def _along(rng: Random, side: int, is_first: bool, is_last: bool) -> int:
    """Where a thing begins on an axis: near its beginning, near its end, or in the middle."""
    room = SIDE - side
    if is_first or is_last:
        near = rng.randint(EDGE, max(EDGE, SIDE // 3 - side // 2 - 4))
        return near if is_first else room - near
    return room // 2 + rng.randint(-4, 4)


def _room(meaning: Meaning, number: int) -> Box:
    """The half of the picture that a thing of a relation keeps to, or all of it."""
    half = SIDE // 2
    if meaning.relation == "left":
        return Box(0, 0, half, SIDE) if number == 0 else Box(half, 0, SIDE, SIDE)
    if meaning.relation == "above":
        return Box(0, 0, SIDE, half) if number == 0 else Box(0, half, SIDE, SIDE)
    return Box(0, 0, SIDE, SIDE)


def _scattered(rng: Random, thing: Thing, room: Box) -> tuple[Box, ...]:
    """Single things that do not touch; none where they found no room."""
    found: list[Box] = []
    for _ in range(TRIES):
        side = _side(rng, thing)
        x = rng.randint(room.left + EDGE, room.right - EDGE - side)
        y = rng.randint(room.top + EDGE, room.bottom - EDGE - side)
        box = Box(x, y, x + side, y + side)
        if not any(box.meets(other, GAP) for other in found):
            found.append(box)
        if len(found) == thing.count:
            return tuple(found)
    return ()


def _stand(relation: str | None, boxes: list[tuple[Box, ...]]) -> bool:
    """Whether two things stand as nobody would say otherwise: further apart along the relation than across it."""
    if relation is None:
        return True
    (x0, y0), (x1, y1) = (_centre(some) for some in boxes)
    along, across = (x1 - x0, y1 - y0) if relation == "left" else (y1 - y0, x1 - x0)
    return along > 1.5 * abs(across)


def _centre(boxes: tuple[Box, ...]) -> tuple[float, float]:
    """Of all boxes together."""
    return (
        (min(box.left for box in boxes) + max(box.right for box in boxes)) / 2,
        (min(box.top for box in boxes) + max(box.bottom for box in boxes)) / 2,
    )
