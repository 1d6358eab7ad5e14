"""Draw scenes: anti-aliased shapes on light backgrounds with slightly varying colours."""

from __future__ import annotations

import math
from functools import cache
from random import Random

import numpy as np
from PIL import Image, ImageDraw

from regard.learn.samples.images.scene import SIDE, Box, Scene

# Supersampling factor: shapes are drawn this many times larger, then averaged, for smooth edges.
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
SHADE = 12  # largest deviation of a colour channel (0 to 255) from the named colour
Point = tuple[float, float]


def draw(scene: Scene) -> Image.Image:
    """Draw the image of a scene; equal scenes give equal images."""
    rng = Random(scene.style_seed)
    image = _background(rng).resize((SIDE * OVERSAMPLING, SIDE * OVERSAMPLING))
    pen = ImageDraw.Draw(image)

    # Draw the first entity last: if it is inside the second, it must stay on top.
    for number, entity in reversed(list(enumerate(scene.meaning.entities))):
        ink = _vary_colour(INKS[entity.colour], rng)
        for box in scene.boxes[number]:
            _draw_shape(pen, entity.shape, box, ink)

    return image.reduce(OVERSAMPLING)


def _background(rng: Random) -> Image.Image:
    """Draw a light background colour with a slight gradient and slight noise."""
    tint = np.array([rng.uniform(222, 246) for _ in range(3)])
    slope_x = rng.uniform(-6, 6)
    slope_y = rng.uniform(-6, 6)
    coordinates = np.linspace(-1, 1, SIDE)
    gradient = slope_x * coordinates[None, :] + slope_y * coordinates[:, None]  # (Y, X)

    noise_rng = np.random.default_rng(rng.getrandbits(32))
    noise = noise_rng.normal(0, rng.uniform(0, 3), (SIDE, SIDE))

    pixels = tint + (gradient + noise)[..., None]
    return Image.fromarray(np.rint(pixels.clip(0, 255)).astype(np.uint8))


def _vary_colour(ink: tuple[int, int, int], rng: Random) -> tuple[int, int, int]:
    red, green, blue = (
        min(255, max(0, channel + rng.randint(-SHADE, SHADE))) for channel in ink
    )
    return red, green, blue


def _draw_shape(
    pen: ImageDraw.ImageDraw, shape: str, box: Box, ink: tuple[int, int, int]
) -> None:
    left, top, right, bottom = (edge * OVERSAMPLING for edge in box)
    if shape == "circle":
        pen.ellipse((left, top, right - 1, bottom - 1), ink)
        return

    width = right - 1 - left
    height = bottom - 1 - top
    points = [(left + x * width, top + y * height) for x, y in _outline(shape)]
    pen.polygon(points, ink)


@cache
def _outline(shape: str) -> tuple[Point, ...]:
    """Return the corners of a shape, stretched to fill the unit square."""
    outlines = {
        "square": _square,
        "triangle": _triangle,
        "star": _star,
        "cross": _cross,
        "heart": _heart,
    }
    points = outlines[shape]()
    xs = [x for x, _ in points]
    ys = [y for _, y in points]
    left = min(xs)
    top = min(ys)
    width = max(xs) - left
    height = max(ys) - top
    return tuple(((x - left) / width, (y - top) / height) for x, y in points)


def _square() -> list[Point]:
    return [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]


def _triangle() -> list[Point]:
    return [(0.5, 0.0), (1.0, 1.0), (0.0, 1.0)]


def _star() -> list[Point]:
    """Return a five-pointed star with one point up; outer and inner corners alternate."""
    points = []
    for corner in range(10):
        radius = 0.4 if corner % 2 else 1.0
        angle = math.pi * corner / 5
        points.append((radius * math.sin(angle), -radius * math.cos(angle)))
    return points


def _cross() -> list[Point]:
    """Return a cross whose arms are 0.32 wide."""
    low = 0.34
    high = 0.66
    top_and_right = [
        (low, 0.0),
        (high, 0.0),
        (high, low),
        (1.0, low),
        (1.0, high),
        (high, high),
    ]
    bottom_and_left = [
        (high, 1.0),
        (low, 1.0),
        (low, high),
        (0.0, high),
        (0.0, low),
        (low, low),
    ]
    return [*top_and_right, *bottom_and_left]


def _heart() -> list[Point]:
    """Return the heart curve: x = 16 sin³ t, y = 13 cos t − 5 cos 2t − 2 cos 3t − cos 4t."""
    points = []
    for step in range(60):
        t = 2 * math.pi * step / 60
        x = 16 * math.sin(t) ** 3
        y = (
            13 * math.cos(t)
            - 5 * math.cos(2 * t)
            - 2 * math.cos(3 * t)
            - math.cos(4 * t)
        )
        points.append((x, -y))  # y of an image points down
    return points
