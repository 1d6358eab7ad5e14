"""Options of the training adapters, and a recorder that measures the throughput of a system's own
training loop.

The adapter wraps only the function that makes one update, and reports to the recorder when each
update begins and how many tokens it has; the recorder ends the process after the measurement.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from machine import clock, others, peak_memory
from shapes import LINEAGE, SHAPES, Shape

__all__ = ["Counts", "Options", "Recorder", "counts_of", "start", "trainable"]


@dataclass(frozen=True)
class Options:
    """What to measure, and in which folders."""

    peer: str
    name: str  # of the shape
    shape: Shape
    precision: str
    data: Path
    work: Path  # an empty folder for this run
    threads: int
    warmup: int
    seconds: float
    updates: int


@dataclass(frozen=True)
class Counts:
    """Positions of a batch: those with source or target tokens, and all with padding."""

    source: float
    source_all: float
    target: float
    target_all: float


class Recorder:
    """Counts updates, prints RESULT and ends the process when warm-up and measurement are over."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.params = 0
        self._updates = 0
        self._counts: list[Counts] = []
        self._since = self._clock = None

    def boundary(self) -> None:
        """Mark the boundary between two updates; time is measured between boundaries."""
        now = time.perf_counter()
        if self._updates == self.options.warmup:
            self._since = now
            self._clock = clock()
            self._counts.clear()
        elif self._since is not None:
            elapsed = now - self._since
            if (
                elapsed >= self.options.seconds
                and len(self._counts) >= self.options.updates
            ):
                self._finish(elapsed)
        self._updates += 1

    def add(self, counts: Counts) -> None:
        """Add the counts of the update that began at the last boundary."""
        self._counts.append(counts)

    def _finish(self, seconds: float) -> NoReturn:
        options = self.options
        source, source_all, target, target_all = (
            sum(getattr(counts, name) for counts in self._counts)
            for name in ("source", "source_all", "target", "target_all")
        )
        result = {
            "peer": options.peer,
            "shape": options.name,
            "precision": options.precision,
            "updates": len(self._counts),
            "seconds": round(seconds, 2),
            "tgt_tok_s": round(target / seconds, 1),
            "src_tok_s": round(source / seconds, 1),
            "pad_src": round(1 - source / source_all, 4),
            "pad_tgt": round(1 - target / target_all, 4),
            "params": self.params,
            "peak_rss_mb": peak_memory(),
            "other_cores": others(self._clock, clock()),
        }
        print("RESULT " + json.dumps(result), flush=True)
        _leave()


def start(peer: str) -> tuple[Options, Recorder]:
    """Read the command line and set the threads; call this before importing the system."""
    options = _options(peer)
    os.environ.update(
        dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(options.threads))
    )
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    import torch  # after the threads are set, which it reads when it is loaded

    torch.set_num_threads(options.threads)
    return options, Recorder(options)


def counts_of(source_keep: Any, target_keep: Any) -> Counts:
    """Return the counts of a batch from two masks that are True at tokens."""
    return Counts(
        int(source_keep.sum()),
        source_keep.numel(),
        int(target_keep.sum()),
        target_keep.numel(),
    )


def trainable(model: Any) -> int:
    """Count the trainable parameters; shared ones count once, fixed position tables not at all."""
    return sum(
        parameter.numel() for parameter in model.parameters() if parameter.requires_grad
    )


def _options(peer: str) -> Options:
    parser = argparse.ArgumentParser(
        prog=f"python -m peers.{peer}", description=f"Training throughput of {peer}."
    )
    parser.add_argument("--shape", required=True, choices=[*SHAPES, *LINEAGE])
    parser.add_argument(
        "--precision", default="float32", choices=("float32", "bfloat16")
    )
    parser.add_argument(
        "--data", required=True, type=Path, help="folder written by prepare.py"
    )
    parser.add_argument(
        "--work",
        required=True,
        type=Path,
        help="folder for this run alone; it is emptied first",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, help="updates that are not measured")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument(
        "--updates", type=int, default=2, help="measure at least this many"
    )
    arguments = parser.parse_args()
    shape = (SHAPES | LINEAGE)[arguments.shape]
    return Options(
        peer=peer,
        name=arguments.shape,
        shape=shape,
        precision=arguments.precision,
        data=arguments.data.resolve(),
        work=arguments.work.resolve(),
        threads=arguments.threads,
        warmup=shape.warmup if arguments.warmup is None else arguments.warmup,
        seconds=arguments.seconds,
        updates=arguments.updates,
    )


def _leave() -> NoReturn:
    """End at once: systems would otherwise write checkpoints or wait for their data workers."""
    for child in multiprocessing.active_children():
        child.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
