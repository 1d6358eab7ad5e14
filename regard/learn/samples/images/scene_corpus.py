"""Random captioned scenes, in splits whose test split has unseen combinations (compositional
generalisation).

Each colour of each shape occurs in training, and each number, relation and place with each colour
and each shape, but not all three together, such as a red circle left of something, three green
stars, or a blue heart at the top.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from regard.data.text import write_lines
from regard.learn.samples.images.drawing import draw
from regard.learn.samples.images.english import ENGLISH
from regard.learn.samples.images.korean import KOREAN
from regard.learn.samples.images.scene import (
    COLOURS,
    PLACES,
    RELATIONS,
    SHAPES,
    SIDE,
    Box,
    Entity,
    Fact,
    Meaning,
    Scene,
)
from regard.learn.samples.images.wording import Caption, Language

LANGUAGES: dict[str, Language] = {"en": ENGLISH, "ko": KOREAN}
"""Language of the captions, by code."""
POSITIONS = (
    *(f"{which} {relation}" for relation in RELATIONS for which in ("first", "second")),
    *PLACES,
    2,
    3,
    4,
)
UNSEEN: frozenset[Fact] = frozenset(
    (position, colour, SHAPES[(i + j) % len(SHAPES)])
    for i, position in enumerate(POSITIONS)
    for j, colour in enumerate(COLOURS)
)
"""Combinations in the test split only, as in `Scene.combinations`: one shape of each colour per
role, place, number.
"""
# Pixels: smallest and largest side of an entity.
LARGE, SMALL, AROUND = (
    (22, 25),
    (14, 16),
    (32, 36),
)
MANY = (12, 14)  # the same for one of several entities
WORDINGS = 3  # captions of an image in each language
EDGE, GAP = 2, 4  # pixels: distance from the edge, and between entities
TRIES = 60


@dataclass(frozen=True)
class CaptionedScene:
    """A scene, the file name of its image, and its captions by language."""

    file: str
    scene: Scene
    captions: dict[str, tuple[Caption, ...]]


@dataclass(frozen=True)
class ImageSample:
    """Captioned scenes in named splits: "train", "valid" and "test"."""

    splits: dict[str, tuple[CaptionedScene, ...]]

    def write(self, folder: str | Path) -> None:
        """Write images into `folder`/images, and for each split its captions and the regions of
        their nouns.

        "train.en.tsv" has lines of file, tab, caption. A line of "train.regions.jsonl" has the
        file, the language, the numbers of the caption and of the noun's word, and boxes [left, top,
        right, bottom] in pixels.
        """
        folder = Path(folder)
        (folder / "images").mkdir(parents=True, exist_ok=True)
        for name, scenes in self.splits.items():
            for image in scenes:
                draw(image.scene).save(folder / "images" / image.file)
            for language in LANGUAGES:
                lines = (
                    f"{image.file}\t{caption.text}"
                    for image in scenes
                    for caption in image.captions[language]
                )
                write_lines(folder / f"{name}.{language}.tsv", lines)
            write_lines(
                folder / f"{name}.regions.jsonl",
                (line for image in scenes for line in _regions(image)),
            )


def _regions(image: CaptionedScene) -> Iterable[str]:
    for language, captions in image.captions.items():
        for number, caption in enumerate(captions):
            for word, entity in caption.nouns:
                noun = {
                    "file": image.file,
                    "language": language,
                    "caption": number,
                    "word": word,
                }
                yield json.dumps({**noun, "boxes": image.scene.region(entity)})


def image_sample(
    train: int = 6000, valid: int = 200, test: int = 400, seed: int = 1
) -> ImageSample:
    """Generate the sample with so many images in each split; the same for the same seed."""
    rng = Random(f"pictures {seed}")
    sizes = {"train": train, "valid": valid, "test": test}
    return ImageSample(
        {
            name: tuple(
                _draw_captioned(rng, f"{name}-{number:05}.png", name == "test")
                for number in range(size)
            )
            for name, size in sizes.items()
        }
    )


def _draw_captioned(rng: Random, file: str, is_unseen: bool) -> CaptionedScene:
    scene = _draw_scene(rng, is_unseen)
    captions = {}
    for name, language in LANGUAGES.items():
        wordings = language.captions(scene.meaning)
        captions[name] = tuple(rng.sample(wordings, min(WORDINGS, len(wordings))))
    return CaptionedScene(file, scene, captions)


def _draw_scene(rng: Random, is_unseen: bool) -> Scene:
    """Draw a scene with an unseen combination, or one without any."""
    while True:
        meaning = _draw_meaning(rng)
        scene = Scene(meaning, (), rng.getrandbits(31))
        if is_unseen == UNSEEN.isdisjoint(scene.combinations()):
            continue
        boxes = _place_entities(rng, meaning)
        if boxes:
            return Scene(meaning, boxes, scene.style_seed)


# --- content


def _draw_meaning(rng: Random) -> Meaning:
    kind = rng.choices(("at", "alone", *RELATIONS), (4, 3, 5, 5, 3))[0]
    if kind == "at":
        return Meaning((_draw_entity(rng, 1),), None, rng.choice(PLACES))
    if kind == "alone":
        return Meaning((_draw_entity(rng, rng.randint(2, 4)),))
    first, second = _draw_two_entities(rng)
    if kind == "inside":
        outer = Entity(rng.choice(("circle", "square")), second.colour)
        return Meaning((Entity(first.shape, first.colour), outer), kind)
    return Meaning((first, second), kind)


def _draw_entity(rng: Random, count: int) -> Entity:
    size = rng.choice(("small", "large")) if count == 1 else None
    return Entity(rng.choice(SHAPES), rng.choice(COLOURS), count, size)


def _draw_two_entities(rng: Random) -> tuple[Entity, Entity]:
    """Draw two entities of different shapes and colours."""
    shapes = rng.sample(SHAPES, 2)
    colours = rng.sample(COLOURS, 2)
    entities = []
    for shape, colour in zip(shapes, colours, strict=True):
        count = rng.choices((1, 2, 3), (6, 3, 1))[0]
        entities.append(
            Entity(
                shape,
                colour,
                count,
                rng.choice(("small", "large")) if count == 1 else None,
            )
        )
    return entities[0], entities[1]


# --- layout


def _place_entities(rng: Random, meaning: Meaning) -> tuple[tuple[Box, ...], ...]:
    """Draw boxes for all entities; empty if there was no room."""
    if meaning.relation == "inside":
        return _place_inside(rng)
    boxes: list[tuple[Box, ...]] = []
    for number, entity in enumerate(meaning.entities):
        area = _allowed_area(meaning, number)
        placed = (
            _place_in_third(rng, entity, meaning.place)
            if meaning.place
            else _scatter(rng, entity, area)
        )
        if not placed:
            return ()
        boxes.append(placed)
    return tuple(boxes) if _is_unambiguous(meaning.relation, boxes) else ()


def _place_inside(rng: Random) -> tuple[tuple[Box, ...], ...]:
    outer = rng.randint(*AROUND)
    inner = rng.randint(*SMALL)
    left, top = (rng.randint(EDGE, SIDE - EDGE - outer) for _ in range(2))
    x, y = (near + (outer - inner) // 2 + rng.randint(-2, 2) for near in (left, top))
    return (
        (Box(x, y, x + inner, y + inner),),
        (Box(left, top, left + outer, top + outer),),
    )


def _draw_side(rng: Random, entity: Entity) -> int:
    return rng.randint(*{"small": SMALL, "large": LARGE, None: MANY}[entity.size])


def _place_in_third(rng: Random, entity: Entity, place: str) -> tuple[Box, ...]:
    """Place one entity with its centre in the third of the image that the place names."""
    side = _draw_side(rng, entity)
    words = place.split()
    column = "left" in words, "right" in words
    row = "top" in words, "bottom" in words
    x, y = (_draw_start(rng, side, *ends) for ends in (column, row))
    return (Box(x, y, x + side, y + side),)


def _draw_start(rng: Random, side: int, is_first: bool, is_last: bool) -> int:
    """Draw where an entity begins on an axis: near the start, near the end, or in the middle."""
    room = SIDE - side
    if is_first or is_last:
        near = rng.randint(EDGE, max(EDGE, SIDE // 3 - side // 2 - 4))
        return near if is_first else room - near
    return room // 2 + rng.randint(-4, 4)


def _allowed_area(meaning: Meaning, number: int) -> Box:
    """Return the half of the image that is reserved for an entity of a relation, or the whole
    image.
    """
    half = SIDE // 2
    if meaning.relation == "left":
        return Box(0, 0, half, SIDE) if number == 0 else Box(half, 0, SIDE, SIDE)
    if meaning.relation == "above":
        return Box(0, 0, SIDE, half) if number == 0 else Box(0, half, SIDE, SIDE)
    return Box(0, 0, SIDE, SIDE)


def _scatter(rng: Random, entity: Entity, area: Box) -> tuple[Box, ...]:
    """Place several entities that do not touch; empty if there was no room."""
    boxes: list[Box] = []
    for _ in range(TRIES):
        side = _draw_side(rng, entity)
        x = rng.randint(area.left + EDGE, area.right - EDGE - side)
        y = rng.randint(area.top + EDGE, area.bottom - EDGE - side)
        box = Box(x, y, x + side, y + side)
        if not any(box.meets(other, GAP) for other in boxes):
            boxes.append(box)
        if len(boxes) == entity.count:
            return tuple(boxes)
    return ()


def _is_unambiguous(relation: str | None, boxes: list[tuple[Box, ...]]) -> bool:
    """Return whether a relation is unambiguous: the entities are further apart along it than across
    it.
    """
    if relation is None:
        return True
    (x0, y0), (x1, y1) = (_centre(group) for group in boxes)
    along, across = (x1 - x0, y1 - y0) if relation == "left" else (y1 - y0, x1 - x0)
    return along > 1.5 * abs(across)


def _centre(boxes: tuple[Box, ...]) -> tuple[float, float]:
    """Return the centre of all boxes together."""
    return (
        (min(box.left for box in boxes) + max(box.right for box in boxes)) / 2,
        (min(box.top for box in boxes) + max(box.bottom for box in boxes)) / 2,
    )
