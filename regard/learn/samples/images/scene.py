"""Scenes of the image sample: entities of a shape, colour, size and number, and their positions.

Positions are in pixels from the top left corner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SIDE = 72  # pixels
"""Height and width of a drawing, in pixels."""
SHAPES = ("circle", "square", "triangle", "star", "cross", "heart")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "black")
SIZES = ("small", "large")
# Of the first entity to the second; right of and below say the same reversed.
RELATIONS = (
    "left",
    "above",
    "inside",
)
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
    """One or several objects of one kind, as a caption names them: "a small red circle", "three
    green stars".

    A single one has a size, unless it is inside another or contains another; several have none.
    """

    shape: str
    colour: str
    count: int = 1
    size: str | None = None


@dataclass(frozen=True)
class Meaning:
    """The meaning of a caption, independent of wording and language.

    Either the first of two entities is in a relation to the second, or one is at a place, or
    several are anywhere.
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
        across = self.left < other.right + gap and other.left < self.right + gap
        return (
            across and self.top < other.bottom + gap and other.top < self.bottom + gap
        )


@dataclass(frozen=True)
class Scene:
    """A meaning with a box for each single object; `style_seed` is that of background, shades and
    noise.
    """

    meaning: Meaning
    boxes: tuple[tuple[Box, ...], ...]  # of each of the meaning's entities
    style_seed: int = 0

    def region(self, entity: int) -> tuple[Box, ...]:
        """Return the boxes of an entity by number; that of an entity around another is the frame
        around the other.
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
        """Yield the combinations of an entity's role, place or number with its colour and shape.

        For example ("first left", "red", "circle").
        """
        relation = self.meaning.relation
        for number, entity in enumerate(self.meaning.entities):
            role = (
                f"{('first', 'second')[number]} {relation}"
                if relation
                else self.meaning.place or entity.count
            )
            yield role, entity.colour, entity.shape


def mask(boxes: tuple[Box, ...]) -> npt.NDArray[np.bool_]:
    """Return boxes as a mask of pixels (Y, X)."""
    pixels = np.zeros((SIDE, SIDE), bool)
    for left, top, right, bottom in boxes:
        pixels[top:bottom, left:right] = True
    return pixels
