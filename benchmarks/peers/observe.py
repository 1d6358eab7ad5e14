"""What all adapters share: their options, and a recorder that turns a system's own training loop into one figure.

The loop is the system's own. The adapter wraps only what makes one update and tells the recorder where each begins
and how many tokens it has; the recorder leaves the process once enough has been measured.
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

__all__ = ["Counts", "Options", "Recorder", "kept", "start", "trainable"]


@dataclass(frozen=True)
class Options:
    """What to measure, and where."""

    peer: str
    name: str  # of the shape
    shape: Shape
    precision: str
    data: Path
    work: Path  # empty, this run's own
    threads: int
    warmup: int
    seconds: float
    updates: int


@dataclass(frozen=True)
class Counts:
    """Positions of a batch: those with tokens to read or to predict, and all of them."""

    source: float
    source_all: float
    target: float
    target_all: float


class Recorder:
    """Told of every update, prints RESULT and leaves the process when warm-up and measurement are over."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.params = 0
        self._begun = 0
        self._counts: list[Counts] = []
        self._since = self._clock = None

    def boundary(self) -> None:
        """Between two updates: time is measured from one boundary to another."""
        now = time.perf_counter()
        if self._begun == self.options.warmup:
            self._since, self._clock = now, clock()
            self._counts.clear()
        elif self._since is not None:
            spent = now - self._since
            if spent >= self.options.seconds and len(self._counts) >= self.options.updates:
                self._finish(spent)
        self._begun += 1

    def add(self, counts: Counts) -> None:
        """What the update has that began at the last boundary."""
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
    """Read the command line and set the threads. To be called before the system is imported."""
    options = _options(peer)
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(options.threads)))
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    import torch  # after the threads are set: it reads them when it is loaded

    torch.set_num_threads(options.threads)
    return options, Recorder(options)


def kept(source_keep: Any, target_keep: Any) -> Counts:
    """The counts of a batch from two masks that are True at tokens."""
    return Counts(int(source_keep.sum()), source_keep.numel(), int(target_keep.sum()), target_keep.numel())


def trainable(model: Any) -> int:
    """How many numbers are learnt; shared ones count once, tables of fixed positions not at all."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _options(peer: str) -> Options:
    parser = argparse.ArgumentParser(prog=f"python -m peers.{peer}", description=f"Training throughput of {peer}.")
    parser.add_argument("--shape", required=True, choices=[*SHAPES, *LINEAGE])
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--data", required=True, type=Path, help="the folder that prepare.py wrote")
    parser.add_argument("--work", required=True, type=Path, help="a folder for this run alone; it is emptied first")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warmup", type=int, help="updates that are not measured")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--updates", type=int, default=2, help="measure at least so many")
    given = parser.parse_args()
    shape = (SHAPES | LINEAGE)[given.shape]
    return Options(
        peer=peer,
        name=given.shape,
        shape=shape,
        precision=given.precision,
        data=given.data.resolve(),
        work=given.work.resolve(),
        threads=given.threads,
        warmup=shape.warmup if given.warmup is None else given.warmup,
        seconds=given.seconds,
        updates=given.updates,
    )


def _leave() -> NoReturn:
    """End at once: nothing of the run is wanted, and the systems would write checkpoints or wait for their readers."""
    for child in multiprocessing.active_children():
        child.kill()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
