"""Options, random images and captions, and the recorder of the two captioners of `captions.py`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from typing import Any, NoReturn

__all__ = [
    "BATCH",
    "CAPTIONS",
    "END",
    "SIDE",
    "STEPS",
    "VOCABULARY",
    "Options",
    "Recorder",
    "random_captioned_images",
    "report",
    "start",
]

SIDE = 96
"""Pixels per side of an image."""
CAPTIONS, SHORTEST, LONGEST = 5, 9, 16
"""Captions per image, and their shortest and longest length in tokens, end of sentence included."""
VOCABULARY = 8000
BATCH = 16
"""Images per update."""
STEPS = 15
"""Tokens decoded for each image."""
END = 3
FIRST = 4


@dataclass(frozen=True)
class Options:
    """What to measure."""

    task: str  # train or caption
    precision: str
    beam: int
    images: int
    seconds: float
    warmup: int
    threads: int


def start(name: str) -> Options:
    """Read the command line and set the threads; call this before importing the system."""
    parser = argparse.ArgumentParser(prog=f"python -m peers.{name}")
    parser.add_argument("--task", required=True, choices=("train", "caption"))
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = Options(**vars(parser.parse_args()))
    os.environ.update(
        dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(options.threads))
    )
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    return options


def random_captioned_images(count: int) -> tuple[Any, list[list[list[int]]]]:
    """Return pixels (count, Y, X, 3) in bytes, and the captions of each image as token ids, ends
    included.
    """
    import numpy as np

    generator = np.random.default_rng(1)
    pixels = generator.integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
    lengths = generator.integers(SHORTEST, LONGEST + 1, (count, CAPTIONS))
    return pixels, [
        [[*generator.integers(FIRST, VOCABULARY, n - 1).tolist(), END] for n in row]
        for row in lengths
    ]


class Recorder:
    """Counts updates, reports the figures and ends the process when warm-up and measurement are
    over.
    """

    def __init__(self, options: Options, weights: int) -> None:
        self.options = options
        self.weights = weights
        self._boundaries = 0
        self._since = 0.0
        self._clock = None
        self._images = self._tokens = self._updates = 0

    def boundary(self) -> None:
        """Mark the boundary between two updates."""
        from machine import clock

        if self._boundaries == self.options.warmup:
            self._since = time.perf_counter()
            self._clock = clock()
            self._images = self._tokens = self._updates = 0
        elif (
            self._boundaries > self.options.warmup
            and time.perf_counter() - self._since >= self.options.seconds
        ):
            self._finish(time.perf_counter() - self._since)
        self._boundaries += 1

    def add(self, images: int, tokens: int) -> None:
        """Add the counts of the finished update."""
        self._images = self._images + images
        self._tokens = self._tokens + tokens
        self._updates = self._updates + 1

    def _finish(self, seconds: float) -> NoReturn:
        report(
            self._images / seconds,
            self._tokens / seconds,
            self._clock,
            updates=self._updates,
            weights=self.weights,
        )


def report(images: float, tokens: float, before: Any, **others_: Any) -> NoReturn:
    """Print the figures, and end the process at once with all its threads."""
    from machine import clock, others, peak_memory

    speeds = {
        "images_s": round(images, 2),
        "tokens_s": round(tokens, 1),
        "peak_rss_mb": peak_memory(),
    }
    print(
        "RESULT "
        + json.dumps({**speeds, "other_cores": others(before, clock()), **others_}),
        flush=True,
    )
    sys.stdout.flush()
    os._exit(0)
