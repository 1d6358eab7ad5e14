"""What the adapters of translation share: their options, and the stopwatch.

An adapter builds a function from sentences of pieces to sentences of pieces; what turns pieces into numbers and back is
in it and is measured. Loading is not.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, NoReturn

from machine import clock, others, peak_memory
from peers.observe import Options
from shapes import SHAPES

__all__ = [
    "BATCH",
    "END",
    "FEW_TOKENS",
    "Pieces",
    "Translate",
    "TranslationOptions",
    "as_training",
    "by_length",
    "measure",
    "read",
    "start",
    "tell",
]

BATCH = 64
"""Sentences that systems without a choice of their own decode together."""
END = "</s>"
FEW_TOKENS = 512
"""The size of the one batch that makes a model to translate with; what it says does not matter."""
WARM_REQUESTS, LEAST_REQUESTS, MOST_REQUESTS = 5, 10, 100

Pieces = list[str]
Translate = Callable[[Sequence[Pieces]], list[Pieces]]


@dataclass(frozen=True)
class TranslationOptions:
    """What to measure, and where."""

    model: str  # its name, as in translators.py
    folder: Path  # what models.py made of it, or the peer's own model
    source: Path
    data: Path  # the folder that prepare.py wrote
    precision: str
    engine: str  # of Regard
    beam: int
    forced: int | None  # steps of every sentence; None: the model decides
    most: int  # pieces of the longest target where it does
    threads: int
    seconds: float  # translate as many sentences as take so long …
    whole: bool  # … or all of them
    out: Path | None  # where the translations go
    setting: dict[str, Any]  # what was tried and found best before
    task: str  # measure; try settings; make a model in `folder`

    @property
    def longest(self) -> int:
        """Steps of the longest target."""
        return self.forced or self.most


def start(name: str) -> TranslationOptions:
    """Read the command line and set the threads. To be called before the system is imported."""
    options = _options(name)
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(options.threads)))
    return options


def measure(
    options: TranslationOptions, translate: Translate, alone: Callable[[], Translate] | None = None
) -> NoReturn:
    """Measure throughput, peak memory and latency, tell them, and end.

    `alone` makes what answers single requests, where that is not what translates many.
    """
    sources = _sentences(options, translate)
    before, passes = clock(), []
    while not passes or sum(passes) < options.seconds / 2:
        began = time.perf_counter()
        found = translate(sources)
        passes.append(time.perf_counter() - began)
    peak = peak_memory()
    if alone is not None:
        del translate
        gc.collect()
        translate = alone()
    latencies = _latencies(translate, sources, options.seconds / 2)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text("".join(" ".join(pieces) + "\n" for pieces in found), "utf-8")
    tell(
        {
            "sentences": len(sources),
            "passes": len(passes),
            "sentences_s": round(len(sources) / median(passes), 2),
            "pieces": round(fmean(map(len, found)), 2),
            "fewest": min(map(len, found)),
            "most": max(map(len, found)),
            "p50_ms": round(_quantile(latencies, 0.5) * 1000, 3),
            "p95_ms": round(_quantile(latencies, 0.95) * 1000, 3),
            "requests": len(latencies),
            "peak_rss_mb": peak,
            "setting": options.setting,
            "other_cores": others(before, clock()),
        }
    )


def _sentences(options: TranslationOptions, translate: Translate) -> list[Pieces]:
    """The sentences to measure with, after some or all of them were translated once."""
    sources = read(options.source)
    translate(sources[:BATCH])
    if options.whole:
        translate(sources)  # what a system finds out about large batches, it finds out now
        return sources
    began = time.perf_counter()
    translate(sources[:BATCH])
    pace = (time.perf_counter() - began) / len(sources[:BATCH])
    sources = sources[: max(BATCH, int(options.seconds / pace) // BATCH * BATCH)]
    if pace * len(sources) < options.seconds / 2:
        translate(sources)
    return sources


def _latencies(translate: Translate, sources: Sequence[Pieces], seconds: float) -> list[float]:
    """Seconds of single requests one after another, shortest first."""
    for source in sources[:WARM_REQUESTS]:
        translate([source])
    found: list[float] = []
    while len(found) < LEAST_REQUESTS or (len(found) < MOST_REQUESTS and sum(found) < seconds):
        began = time.perf_counter()
        translate([sources[len(found) % len(sources)]])
        found.append(time.perf_counter() - began)
    return sorted(found)


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def read(file: Path) -> list[Pieces]:
    """Sentences as pieces."""
    return [line.split(" ") for line in file.read_text("utf-8").removesuffix("\n").split("\n")]


def by_length(sentences: Sequence[Pieces], translate: Translate, size: int = BATCH) -> list[Pieces]:
    """Translate so many sentences of nearly the same length at a time; the order is that of the sentences."""
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    found: dict[int, Pieces] = {}
    for first in range(0, len(order), size):
        some = order[first : first + size]
        found.update(zip(some, translate([sentences[i] for i in some]), strict=True))
    return [found[i] for i in range(len(sentences))]


def tell(result: dict[str, Any]) -> NoReturn:
    """Print the result and end at once: nobody waits for threads that systems leave behind."""
    print("RESULT " + json.dumps(result), flush=True)
    os._exit(0)


def as_training(options: TranslationOptions) -> Options:
    """What a training adapter is asked for, to make a model of the same shape."""
    return Options(
        peer="",
        name=options.model,
        shape=SHAPES[options.model],
        precision="float32",
        data=options.data.resolve(),
        work=options.folder.resolve(),
        threads=options.threads,
        warmup=0,
        seconds=0,
        updates=1,
    )


def _options(name: str) -> TranslationOptions:
    parser = argparse.ArgumentParser(prog=f"python -m peers.{name}", description=f"Translation by {name}.")
    parser.add_argument("--model", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--engine", default="native")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--forced", type=int)
    parser.add_argument("--most", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--whole", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--setting", type=json.loads, default={})
    parser.add_argument("--task", default="measure", choices=("measure", "try", "make"))
    given = parser.parse_args()
    return TranslationOptions(**{**vars(given), "whole": bool(given.whole)})
