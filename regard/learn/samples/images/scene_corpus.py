"""Generate captioned scenes in splits that test compositional generalisation.

Training contains every pair of a colour and a shape, and every number, relation and place with each
colour and with each shape. The test split combines all three in ways that never occur in training,
such as a red circle left of something, three green stars, or a blue heart at the top.
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
"""Caption languages by language code."""
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
"""Combinations, as in `Scene.combinations`, that occur in the test split only.

For every role, place and number, each colour is held out with one shape.
"""
# Smallest and largest side of an entity, in pixels.
LARGE = (22, 25)
SMALL = (14, 16)
AROUND = (32, 36)  # an entity that contains another
MANY = (12, 14)  # one of several equal objects
WORDINGS = 3  # captions of an image in each language
# Smallest distances in pixels: from the edge of the image, and between entities.
EDGE = 2
GAP = 4
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
        """Write the images into `folder`/images, and the captions and noun regions of each split.

        A line of "train.en.tsv" is an image file, a tab and a caption. A line of
        "train.regions.jsonl" has the image file, the language, the numbers of the caption and of
        the noun's word, and boxes [left, top, right, bottom] in pixels.
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
    """Generate a sample with the given number of images in each split.

    Equal arguments give equal samples.
    """
    rng = Random(f"pictures {seed}")
    sizes = {"train": train, "valid": valid, "test": test}
    splits = {}
    for name, size in sizes.items():
        files = (f"{name}-{number:05}.png" for number in range(size))
        splits[name] = tuple(
            _draw_captioned(rng, file, is_unseen=name == "test") for file in files
        )
    return ImageSample(splits)


def _draw_captioned(rng: Random, file: str, is_unseen: bool) -> CaptionedScene:
    scene = _draw_scene(rng, is_unseen)
    captions = {}
    for name, language in LANGUAGES.items():
        wordings = language.captions(scene.meaning)
        captions[name] = tuple(rng.sample(wordings, min(WORDINGS, len(wordings))))
    return CaptionedScene(file, scene, captions)


def _draw_scene(rng: Random, is_unseen: bool) -> Scene:
    """Draw a scene that has an unseen combination, or one that has none."""
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
        size = rng.choice(("small", "large")) if count == 1 else None
        entities.append(Entity(shape, colour, count, size))
    return entities[0], entities[1]


# --- layout


def _place_entities(rng: Random, meaning: Meaning) -> tuple[tuple[Box, ...], ...]:
    """Draw boxes for all entities; empty if they found no room or the relation is ambiguous."""
    if meaning.relation == "inside":
        return _place_inside(rng)

    boxes: list[tuple[Box, ...]] = []
    for number, entity in enumerate(meaning.entities):
        if meaning.place:
            placed = _place_in_third(rng, entity, meaning.place)
        else:
            placed = _scatter(rng, entity, _allowed_area(meaning, number))
        if not placed:
            return ()
        boxes.append(placed)

    if not _is_unambiguous(meaning.relation, boxes):
        return ()
    return tuple(boxes)


def _place_inside(rng: Random) -> tuple[tuple[Box, ...], ...]:
    """Draw a small box near the middle of a large one."""
    outer_side = rng.randint(*AROUND)
    inner_side = rng.randint(*SMALL)
    left = rng.randint(EDGE, SIDE - EDGE - outer_side)
    top = rng.randint(EDGE, SIDE - EDGE - outer_side)
    outer = Box(left, top, left + outer_side, top + outer_side)

    margin = (outer_side - inner_side) // 2
    x = left + margin + rng.randint(-2, 2)
    y = top + margin + rng.randint(-2, 2)
    inner = Box(x, y, x + inner_side, y + inner_side)
    return (inner,), (outer,)


def _draw_side(rng: Random, entity: Entity) -> int:
    """Draw the side of an entity, in pixels."""
    shortest, longest = {"small": SMALL, "large": LARGE, None: MANY}[entity.size]
    return rng.randint(shortest, longest)


def _place_in_third(rng: Random, entity: Entity, place: str) -> tuple[Box, ...]:
    """Place one entity with its centre in the third of the image that the place names."""
    side = _draw_side(rng, entity)
    words = place.split()
    x = _draw_start(rng, side, "left" in words, "right" in words)
    y = _draw_start(rng, side, "top" in words, "bottom" in words)
    return (Box(x, y, x + side, y + side),)


def _draw_start(rng: Random, side: int, is_first: bool, is_last: bool) -> int:
    """Draw the first pixel of an entity on one axis, in the first, last or middle third."""
    last_start = SIDE - side
    if is_first or is_last:
        margin = rng.randint(EDGE, max(EDGE, SIDE // 3 - side // 2 - 4))
        return margin if is_first else last_start - margin
    return last_start // 2 + rng.randint(-4, 4)


def _allowed_area(meaning: Meaning, number: int) -> Box:
    """Return the area for an entity: half of the image for "left" and "above", else all of it."""
    half = SIDE // 2
    if meaning.relation == "left":
        return Box(0, 0, half, SIDE) if number == 0 else Box(half, 0, SIDE, SIDE)
    if meaning.relation == "above":
        return Box(0, 0, SIDE, half) if number == 0 else Box(0, half, SIDE, SIDE)
    return Box(0, 0, SIDE, SIDE)


def _scatter(rng: Random, entity: Entity, area: Box) -> tuple[Box, ...]:
    """Place all objects of an entity so that none touch; empty if there was no room."""
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
    """Return whether the centres are clearly further apart along the relation than across it."""
    if relation is None:
        return True

    first, second = (_centre(group) for group in boxes)
    dx = second[0] - first[0]
    dy = second[1] - first[1]
    if relation == "left":
        return dx > 1.5 * abs(dy)
    return dy > 1.5 * abs(dx)


def _centre(boxes: tuple[Box, ...]) -> tuple[float, float]:
    """Return the centre of the rectangle that encloses all boxes."""
    left = min(box.left for box in boxes)
    right = max(box.right for box in boxes)
    top = min(box.top for box in boxes)
    bottom = max(box.bottom for box in boxes)
    return (left + right) / 2, (top + bottom) / 2
