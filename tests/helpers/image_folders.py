"""Folders of small images with captions, good and bad."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {
    "red": (220, 30, 30),
    "green": (20, 180, 40),
    "blue": (30, 40, 220),
    "grey": (128, 128, 128),
}


def noise(size: tuple[int, int] = (12, 20), seed: int = 0) -> Image.Image:
    """Return an image of Y × X random pixels."""
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    )


def folder(
    path: Path, count: int = 12, size: tuple[int, int] = (12, 16), captions: int = 2
) -> Path:
    """Write a folder of `count` plain images, `captions.tsv` with `captions` of each, and
    `valid.tsv` of the last.
    """
    (path / "images").mkdir(parents=True)
    rows = []

    for number in range(count):
        name = f"{number:02d}.png"
        colour = list(COLOURS)[number % len(COLOURS)]
        pixels = np.full((*size, 3), COLOURS[colour], dtype=np.uint8)
        pixels[:, : number % size[1]] //= 2
        Image.fromarray(pixels).save(path / "images" / name)
        rows.append(
            [f"{name}\ta {colour} image {'again ' * k}.\n" for k in range(captions)]
        )

    valid = max(1, count // 4)
    (path / "captions.tsv").write_text(
        "".join(line for own in rows[:-valid] for line in own), encoding="utf-8"
    )
    (path / "valid.tsv").write_text(
        "".join(line for own in rows[-valid:] for line in own), encoding="utf-8"
    )
    return path


def named(path: Path, **options: object) -> dict[str, object]:
    """Return data settings for such a folder."""
    files = {"folder": str(path / "images"), "captions": str(path / "captions.tsv")}
    return {
        **files,
        "valid_captions": str(path / "valid.tsv"),
        "height": 8,
        "width": 8,
        "cell": 4,
        **options,
    }
