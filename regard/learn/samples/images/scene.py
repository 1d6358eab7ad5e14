"""Scenes of the image sample: entities of a shape, colour, size and number, and their positions.

Positions are in pixels from the top left corner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SIDE = 72
"""Height and width of a drawing, in pixels."""
SHAPES = ("circle", "square", "triangle", "star", "cross", "heart")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "black")
SIZES = ("small", "large")
# Relations of the first entity to the second. "Right of" and "below" are these two reversed.
RELATIONS = ("left", "above", "inside")
PLACES = (
    "top left",
    "top",
    "top right",
    "left",
    "middle",
    "right",
    "bottom left",
    "bottom",
    "bottom right",
)

Fact = tuple[object, ...]


@dataclass(frozen=True)
class Entity:
    """One or several equal objects, such as "a small red circle" or "three green stars".

    Only a single object has a size, and only if it is neither inside another nor around one.
    """

    shape: str
    colour: str
    count: int = 1
    size: str | None = None


@dataclass(frozen=True)
class Meaning:
    """The meaning of a caption, independent of wording and language.

    It has one of three forms: two entities in a relation, one object at a place, or several
    equal objects anywhere.
    """

    entities: tuple[Entity, ...]
    relation: str | None = None
    place: str | None = None

    def facts(self) -> frozenset[Fact]:
        """Return the meaning as single facts: entities, relation and place."""
        facts: set[Fact] = {("there is", entity) for entity in self.entities}
        if self.relation:
            facts.add((self.relation, *self.entities))
        if self.place:
            facts.add(("at", self.place))
        return frozenset(facts)


class Box(NamedTuple):
    """A rectangle of pixels: from (left, top) up to, but not including, (right, bottom)."""

    left: int
    top: int
    right: int
    bottom: int

    def meets(self, other: Box, gap: int = 0) -> bool:
        """Return whether two boxes overlap, or are closer than `gap` pixels."""
        meets_in_x = self.left < other.right + gap and other.left < self.right + gap
        meets_in_y = self.top < other.bottom + gap and other.top < self.bottom + gap
        return meets_in_x and meets_in_y


@dataclass(frozen=True)
class Scene:
    """A meaning with a box for each object; `style_seed` fixes background, shades and noise."""

    meaning: Meaning
    boxes: tuple[tuple[Box, ...], ...]  # for each entity, a box for each of its objects
    style_seed: int = 0

    def region(self, entity: int) -> tuple[Box, ...]:
        """Return the boxes of the entity with this number.

        An entity that contains another has four boxes: its frame around the inner entity.
        """
        if self.meaning.relation != "inside" or entity == 0:
            return self.boxes[entity]
        (outer,), (inner,) = self.boxes[1], self.boxes[0]
        return (
            Box(outer.left, outer.top, outer.right, inner.top),
            Box(outer.left, inner.top, inner.left, inner.bottom),
            Box(inner.right, inner.top, outer.right, inner.bottom),
            Box(outer.left, inner.bottom, outer.right, outer.bottom),
        )

    def mask(self, entity: int) -> npt.NDArray[np.bool_]:
        """Return the region of an entity as a mask of pixels (Y, X)."""
        return mask(self.region(entity))

    def combinations(self) -> Iterator[Fact]:
        """Yield each entity's role, place or number, with its colour and its shape.

        For example ("first left", "red", "circle").
        """
        relation = self.meaning.relation
        for number, entity in enumerate(self.meaning.entities):
            position: object
            if relation:
                position = f"{('first', 'second')[number]} {relation}"
            else:
                position = self.meaning.place or entity.count
            yield position, entity.colour, entity.shape


def mask(boxes: tuple[Box, ...]) -> npt.NDArray[np.bool_]:
    """Return a mask (Y, X) that is True for the pixels inside any of the boxes."""
    pixels = np.zeros((SIDE, SIDE), bool)
    for left, top, right, bottom in boxes:
        pixels[top:bottom, left:right] = True
    return pixels
