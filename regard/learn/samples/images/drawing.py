"""Drawing of scenes: anti-aliased shapes on light backgrounds that vary a little."""

from __future__ import annotations

import math
from functools import cache
from random import Random

import numpy as np
from PIL import Image, ImageDraw

from regard.learn.samples.images.scene import SIDE, Box, Scene

# Factor by which images are drawn larger and then reduced, for smooth edges.
OVERSAMPLING = 4
INKS = {
    "red": (216, 36, 40),
    "orange": (247, 134, 18),
    "yellow": (240, 208, 32),
    "green": (36, 152, 62),
    "blue": (36, 92, 210),
    "purple": (128, 54, 172),
    "pink": (244, 136, 190),
    "black": (28, 28, 32),
}
SHADE = 12  # largest deviation of a channel from the named colour, of 255
Point = tuple[float, float]


def draw(scene: Scene) -> Image.Image:
    """Draw the image of a scene; the same for the same scene."""
    rng = Random(scene.style_seed)
    image = _background(rng).resize((SIDE * OVERSAMPLING, SIDE * OVERSAMPLING))
    pen = ImageDraw.Draw(image)
    # An inner entity is drawn last.
    for number, entity in reversed(list(enumerate(scene.meaning.entities))):
        ink = _vary_colour(INKS[entity.colour], rng)
        for box in scene.boxes[number]:
            _draw_shape(pen, entity.shape, box, ink)
    return image.reduce(OVERSAMPLING)


def _background(rng: Random) -> Image.Image:
    """Draw a light tint with a slight gradient and slight noise."""
    tint = np.array([rng.uniform(222, 246) for _ in range(3)])
    slope_x = rng.uniform(-6, 6)
    slope_y = rng.uniform(-6, 6)
    along = np.linspace(-1, 1, SIDE)
    light = slope_x * along[None, :] + slope_y * along[:, None]  # (Y, X)
    rough = np.random.default_rng(rng.getrandbits(32)).normal(
        0, rng.uniform(0, 3), (SIDE, SIDE)
    )
    pixels = tint + (light + rough)[..., None]
    return Image.fromarray(np.rint(pixels.clip(0, 255)).astype(np.uint8))


def _vary_colour(ink: tuple[int, int, int], rng: Random) -> tuple[int, int, int]:
    red, green, blue = (
        min(255, max(0, channel + rng.randint(-SHADE, SHADE))) for channel in ink
    )
    return red, green, blue


def _draw_shape(
    pen: ImageDraw.ImageDraw, shape: str, box: Box, ink: tuple[int, int, int]
) -> None:
    left, top, right, bottom = (side * OVERSAMPLING for side in box)
    if shape == "circle":
        pen.ellipse((left, top, right - 1, bottom - 1), ink)
        return
    points = [
        (left + x * (right - 1 - left), top + y * (bottom - 1 - top))
        for x, y in _outline(shape)
    ]
    pen.polygon(points, ink)


@cache
def _outline(shape: str) -> tuple[Point, ...]:
    """Return the corners of a shape, stretched to fill a box from 0 to 1."""
    points = {
        "square": _square,
        "triangle": _triangle,
        "star": _star,
        "cross": _cross,
        "heart": _heart,
    }[shape]()
    (x0, x1), (y0, y1) = ((min(axis), max(axis)) for axis in zip(*points, strict=True))
    return tuple(((x - x0) / (x1 - x0), (y - y0) / (y1 - y0)) for x, y in points)


def _square() -> list[Point]:
    return [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]


def _triangle() -> list[Point]:
    return [(0.5, 0.0), (1.0, 1.0), (0.0, 1.0)]


def _star() -> list[Point]:
    """Return a five-pointed star, one point up."""
    turns = [(0.4 if n % 2 else 1.0, math.pi * n / 5) for n in range(10)]
    return [(reach * math.sin(turn), -reach * math.cos(turn)) for reach, turn in turns]


def _cross() -> list[Point]:
    low = 0.0
    a = 0.34
    b = 0.66
    high = 1.0
    upper = [(a, low), (b, low), (b, a), (high, a), (high, b), (b, b)]
    return [*upper, (b, high), (a, high), (a, b), (low, b), (low, a), (a, a)]


def _heart() -> list[Point]:
    """Return a heart, the curve x = 16 sin³ t."""
    points = []
    for n in range(60):
        turn = 2 * math.pi * n / 60
        y = (
            13 * math.cos(turn)
            - 5 * math.cos(2 * turn)
            - 2 * math.cos(3 * turn)
            - math.cos(4 * turn)
        )
        points.append((16 * math.sin(turn) ** 3, -y))
    return points
