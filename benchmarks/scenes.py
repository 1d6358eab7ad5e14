"""The captioner that both sides of `captions.py` build, and the random pictures and captions that they are given."""

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
    "Watch",
    "random_scenes",
    "start",
    "tell",
]

SIDE = 96
"""Pixels a side of a picture."""
CAPTIONS, SHORTEST, LONGEST = 5, 9, 16
"""Of each picture, and their pieces, end of sentence included."""
VOCABULARY = 8000
BATCH = 16
"""Pictures of an update."""
STEPS = 15
"""Pieces that are written of each picture where captions are decoded."""
END, FIRST = 3, 4


@dataclass(frozen=True)
class Options:
    """What to measure."""

    task: str  # train or caption
    precision: str
    beam: int
    pictures: int
    seconds: float
    warmup: int
    threads: int


def start(name: str) -> Options:
    """Read the command line and set the threads. To be called before the system is imported."""
    parser = argparse.ArgumentParser(prog=f"python -m peers.{name}")
    parser.add_argument("--task", required=True, choices=("train", "caption"))
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--pictures", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = Options(**vars(parser.parse_args()))
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(options.threads)))
    import torch

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    return options


def random_scenes(count: int) -> tuple[Any, list[list[list[int]]]]:
    """Pixels (count, Y, X, 3) in bytes, and the captions of each as ids, ends included."""
    import numpy as np

    chance = np.random.default_rng(1)
    pixels = chance.integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8)
    lengths = chance.integers(SHORTEST, LONGEST + 1, (count, CAPTIONS))
    return pixels, [[[*chance.integers(FIRST, VOCABULARY, n - 1).tolist(), END] for n in own] for own in lengths]


class Watch:
    """Told of every update, tells the figures and leaves the process when warm-up and measurement are over."""

    def __init__(self, options: Options, weights: int) -> None:
        self.options, self.weights = options, weights
        self._begun, self._since, self._clock = 0, 0.0, None
        self._pictures = self._pieces = self._updates = 0

    def boundary(self) -> None:
        """Between two updates."""
        from machine import clock

        if self._begun == self.options.warmup:
            self._since, self._clock = time.perf_counter(), clock()
            self._pictures = self._pieces = self._updates = 0
        elif self._begun > self.options.warmup and time.perf_counter() - self._since >= self.options.seconds:
            self._finish(time.perf_counter() - self._since)
        self._begun += 1

    def add(self, pictures: int, pieces: int) -> None:
        """What the update had that is over."""
        self._pictures, self._pieces, self._updates = (
            self._pictures + pictures,
            self._pieces + pieces,
            self._updates + 1,
        )

    def _finish(self, seconds: float) -> NoReturn:
        tell(self._pictures / seconds, self._pieces / seconds, self._clock, updates=self._updates, weights=self.weights)


def tell(pictures: float, pieces: float, before: Any, **others_: Any) -> NoReturn:
    """Say the figures, and leave the process with whatever threads it has."""
    from machine import clock, others, peak_memory

    speeds = {"pictures_s": round(pictures, 2), "pieces_s": round(pieces, 1), "peak_rss_mb": peak_memory()}
    print("RESULT " + json.dumps({**speeds, "other_cores": others(before, clock()), **others_}), flush=True)
    sys.stdout.flush()
    os._exit(0)
