"""What a picture of the sample shows: things of a shape, a colour, a size and a number, and where they are.

Positions are in pixels from the top left corner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["COLOURS", "PLACES", "RELATIONS", "SHAPES", "SIDE", "SIZES", "Box", "Fact", "Meaning", "Scene", "Thing"]

SIDE = 72  # pixels
SHAPES = ("circle", "square", "triangle", "star", "cross", "heart")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "black")
SIZES = ("small", "large")
RELATIONS = ("left", "above", "inside")  # of the first thing to the second; right of and below say the same reversed
PLACES = ("top left", "top", "top right", "left", "middle", "right", "bottom left", "bottom", "bottom right")

Fact = tuple[object, ...]


@dataclass(frozen=True)
class Thing:
    """Things of one kind, as a caption names them: "a small red circle", "three green stars" with a count of 3.

    One alone has a size, unless it lies inside another or has another inside it; several have none.
    """

    shape: str
    colour: str
    count: int = 1
    size: str | None = None


@dataclass(frozen=True)
class Meaning:
    """What a caption says, whatever its wording and its language.

    Two things stand in a relation, the first to the second; one thing alone is at a place; several alone are anywhere.
    """

    things: tuple[Thing, ...]
    relation: str | None = None
    place: str | None = None

    def facts(self) -> frozenset[Fact]:
        """The same as single facts: what is there, how they stand, and where it is."""
        found: set[Fact] = {("there is", thing) for thing in self.things}
        if self.relation:
            found.add((self.relation, *self.things))
        if self.place:
            found.add(("at", self.place))
        return frozenset(found)


class Box(NamedTuple):
    """A rectangle of pixels: from (left, top) up to, but not including, (right, bottom)."""

    left: int
    top: int
    right: int
    bottom: int

    def meets(self, other: Box, gap: int = 0) -> bool:
        """Whether they overlap, or come nearer than `gap` pixels."""
        across = self.left < other.right + gap and other.left < self.right + gap
        return across and self.top < other.bottom + gap and other.top < self.bottom + gap


@dataclass(frozen=True)
class Scene:
    """A meaning with a box for each single thing; `look` is the seed of background, shades and noise."""

    meaning: Meaning
    boxes: tuple[tuple[Box, ...], ...]  # of each of the meaning's things
    look: int = 0

    def region(self, thing: int) -> tuple[Box, ...]:
        """Where the thing of this number is: its boxes; of one with another inside it, the frame round that other."""
        if self.meaning.relation != "inside" or thing == 0:
            return self.boxes[thing]
        (outer,), (inner,) = self.boxes[1], self.boxes[0]
        return (
            Box(outer.left, outer.top, outer.right, inner.top),
            Box(outer.left, inner.top, inner.left, inner.bottom),
            Box(inner.right, inner.top, outer.right, inner.bottom),
            Box(outer.left, inner.bottom, outer.right, outer.bottom),
        )

    def mask(self, thing: int) -> npt.NDArray[np.bool_]:
        """The same as pixels (Y, X)."""
        return mask(self.region(thing))

    def combinations(self) -> Iterator[Fact]:
        """What may never have been seen together: colour and shape of a thing with its role in a relation, its place or
        its number, such as ("first left", "red", "circle")."""
        said = self.meaning
        for number, thing in enumerate(said.things):
            stands = f"{('first', 'second')[number]} {said.relation}" if said.relation else said.place or thing.count
            yield stands, thing.colour, thing.shape


def mask(boxes: tuple[Box, ...]) -> npt.NDArray[np.bool_]:
    """Boxes as pixels (Y, X) of a picture of the sample."""
    found = np.zeros((SIDE, SIDE), bool)
    for left, top, right, bottom in boxes:
        found[top:bottom, left:right] = True
    return found
