"""What makes the folders of the command line's tests, each in a process of its own
(`tests/helpers/cached_folders.py`).
"""

from __future__ import annotations

from pathlib import Path


def write_sentences(folder: Path) -> None:
    """Write Korean and English sentences for training, validation and test."""
    from regard.learn.samples import korean_english

    sizes = {"train": 300, "valid": 10, "test": 12, "recombination": 0, "length": 0}
    korean_english(sizes=sizes, short=1.0).write(folder, "ko", "en")


def write_images(folder: Path) -> None:
    """Write plain images in four colours, with captions that name the colours."""
    from helpers import image_folders

    image_folders.folder(folder, count=24)


def train(folder: Path, *options: str) -> None:
    """Train a model by the command itself into the folder `run`, and end as it does."""
    from regard.cli import main

    main(["train", *options, "--out", str(folder / "run"), "--threads", "1", "--quiet"])
