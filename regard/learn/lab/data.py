"""Data of experiments: sentences of uniformly distributed lengths, and lists and images whose
content exceeds what one vector can hold.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from regard.common.atomic import write_text
from regard.data.text import write_lines
from regard.learn.samples import korean_english
from regard.learn.samples.images.drawing import draw
from regard.learn.samples.images.scene import (
    COLOURS,
    SHAPES,
    SIDE,
    Box,
    Entity,
    Meaning,
    Scene,
)
from regard.learn.samples.lexicon import THINGS

PARTS = {"test": 500, "valid": 300, "train": 9000}
"""Sentence pairs in each split; all splits have the same distribution."""
LONGEST = 32
MOST_THINGS = 12
IMAGES = {"train": 3000, "valid": 60, "test": 150}
ROWS = 2
COLUMNS = 3
SIDES = (14, 18)
"""Smallest and largest side of a shape, in pixels."""


def write_lengths(folder: Path, parts: dict[str, int] | None = None) -> None:
    """Write Korean–English pairs of 2 to 32 English words, all lengths equally often."""
    parts = parts or PARTS
    sizes = dict.fromkeys(("train", "valid", "test", "recombination"), 0)
    sizes["length"] = sum(parts.values())
    pairs = list(korean_english(seed=2, sizes=sizes, longest=LONGEST).splits["length"])
    Random(1).shuffle(pairs)
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in parts.items():
        part = pairs[:size]
        pairs = pairs[size:]
        write_lines(folder / f"{name}.ko", [pair.source for pair in part])
        write_lines(folder / f"{name}.en", [pair.target for pair in part])
    write_text(
        folder / "SAMPLE.md", "# Korean–English sentences, all lengths equally often\n"
    )


def write_lists(folder: Path, parts: dict[str, int] | None = None) -> None:
    """Write lists of one to twelve nouns in Korean and English.

    The nouns are drawn independently, so that none can be predicted from the others.
    """
    rng = Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in (parts or PARTS).items():
        lists = [
            rng.choices(THINGS, k=rng.randint(1, MOST_THINGS)) for _ in range(size)
        ]
        korean = [" ".join(thing.korean for thing in things) for things in lists]
        english = [" ".join(thing.english for thing in things) for things in lists]
        write_lines(folder / f"{name}.ko", korean)
        write_lines(folder / f"{name}.en", english)
    write_text(
        folder / "SAMPLE.md",
        "# Lists of one to twelve Korean and English nouns, all lengths equally often\n",
    )


def write_crowded(folder: Path, parts: dict[str, int] | None = None) -> None:
    """Write images of six shapes; a caption names the colours and shapes row by row."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rng = Random(1)
    for name, size in (parts or IMAGES).items():
        lines = []
        for number in range(size):
            scene = _draw_scene(rng)
            file = f"{name}-{number:05}.png"
            draw(scene).save(folder / "images" / file)
            phrases = (f"{e.colour} {e.shape}" for e in scene.meaning.entities)
            lines.append(f"{file}\t{' '.join(phrases)}")
        write_lines(folder / f"{name}.en.tsv", lines)
    write_text(
        folder / "SAMPLE.md",
        "# Images of six shapes, with captions that name all of them\n",
    )


def _draw_scene(rng: Random) -> Scene:
    """Draw a scene with a shape in each cell of a grid."""
    width = SIDE // COLUMNS
    height = SIDE // ROWS
    boxes = []
    for cell in range(ROWS * COLUMNS):
        side = rng.randint(*SIDES)
        row, column = divmod(cell, COLUMNS)
        x = column * width + rng.randint(2, width - 2 - side)
        y = row * height + rng.randint(2, height - 2 - side)
        boxes.append((Box(x, y, x + side, y + side),))
    entities = tuple(Entity(rng.choice(SHAPES), rng.choice(COLOURS)) for _ in boxes)
    return Scene(Meaning(entities), tuple(boxes), rng.getrandbits(31))
