"""Options of the translation adapters, and the measurement of throughput and latency.

An adapter builds a function from tokenised sentences to tokenised translations; converting tokens
to ids and back is part of it and is measured. Loading is not.
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
    "Tokens",
    "Translate",
    "TranslationOptions",
    "as_training",
    "by_length",
    "measure",
    "read",
    "report",
    "start",
]

BATCH = 64
"""Batch size of systems without a choice of their own."""
END = "</s>"
FEW_TOKENS = 512
"""Batch size of the single update that makes a model to translate with; its output does not
matter.
"""
WARMUP_REQUESTS = 5
MIN_REQUESTS = 10
MAX_REQUESTS = 100

Tokens = list[str]
Translate = Callable[[Sequence[Tokens]], list[Tokens]]


@dataclass(frozen=True)
class TranslationOptions:
    """What to measure, and in which folders."""

    model: str  # its name, as in translators.py
    folder: Path  # written by models.py, or the peer's own model
    source: Path
    data: Path  # folder written by prepare.py
    precision: str
    beam: int
    forced: int | None  # steps of every sentence; None: natural length
    max_length: int  # tokens of the longest target at natural length
    threads: int
    seconds: float  # translate as many sentences as take this long …
    whole: bool  # … or all of them
    out: Path | None  # file for the translations
    setting: dict[str, Any]  # settings found best before
    task: str  # measure; try settings; make a model in `folder`

    @property
    def longest(self) -> int:
        """Steps of the longest target."""
        return self.forced or self.max_length


def start(name: str) -> TranslationOptions:
    """Read the command line and set the threads; call this before importing the system."""
    options = _options(name)
    os.environ.update(
        dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(options.threads))
    )
    return options


def measure(
    options: TranslationOptions,
    translate: Translate,
    alone: Callable[[], Translate] | None = None,
) -> NoReturn:
    """Measure throughput, peak memory and latency, print them, and end the process.

    `alone` makes the function for single requests, if it is another than that for many.
    """
    sources = _sentences(options, translate)
    before = clock()
    passes = []
    while not passes or sum(passes) < options.seconds / 2:
        began = time.perf_counter()
        outputs = translate(sources)
        passes.append(time.perf_counter() - began)
    peak = peak_memory()
    if alone is not None:
        del translate
        gc.collect()
        translate = alone()
    latencies = _latencies(translate, sources, options.seconds / 2)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(
            "".join(" ".join(tokens) + "\n" for tokens in outputs), "utf-8"
        )
    report(
        {
            "sentences": len(sources),
            "passes": len(passes),
            "sentences_s": round(len(sources) / median(passes), 2),
            "tokens": round(fmean(map(len, outputs)), 2),
            "shortest": min(map(len, outputs)),
            "longest": max(map(len, outputs)),
            "p50_ms": round(_quantile(latencies, 0.5) * 1000, 3),
            "p95_ms": round(_quantile(latencies, 0.95) * 1000, 3),
            "requests": len(latencies),
            "peak_rss_mb": peak,
            "setting": options.setting,
            "other_cores": others(before, clock()),
        }
    )


def _sentences(options: TranslationOptions, translate: Translate) -> list[Tokens]:
    """Return the sentences to measure with, after translating some or all of them once as
    warm-up.
    """
    sources = read(options.source)
    translate(sources[:BATCH])
    if options.whole:
        translate(sources)  # systems that tune themselves on large batches do so now
        return sources
    began = time.perf_counter()
    translate(sources[:BATCH])
    pace = (time.perf_counter() - began) / len(sources[:BATCH])
    sources = sources[: max(BATCH, int(options.seconds / pace) // BATCH * BATCH)]
    if pace * len(sources) < options.seconds / 2:
        translate(sources)
    return sources


def _latencies(
    translate: Translate, sources: Sequence[Tokens], seconds: float
) -> list[float]:
    """Return the seconds of single requests, measured one after another, in ascending order."""
    for source in sources[:WARMUP_REQUESTS]:
        translate([source])
    latencies: list[float] = []
    while len(latencies) < MIN_REQUESTS or (
        len(latencies) < MAX_REQUESTS and sum(latencies) < seconds
    ):
        began = time.perf_counter()
        translate([sources[len(latencies) % len(sources)]])
        latencies.append(time.perf_counter() - began)
    return sorted(latencies)


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def read(file: Path) -> list[Tokens]:
    """Read tokenised sentences."""
    return [
        line.split(" ")
        for line in file.read_text("utf-8").removesuffix("\n").split("\n")
    ]


def by_length(
    sentences: Sequence[Tokens], translate: Translate, size: int = BATCH
) -> list[Tokens]:
    """Translate in batches of `size` sentences of similar length; the outputs are in the order of
    the sentences.
    """
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    outputs: dict[int, Tokens] = {}
    for first in range(0, len(order), size):
        batch = order[first : first + size]
        outputs.update(
            zip(batch, translate([sentences[i] for i in batch]), strict=True)
        )
    return [outputs[i] for i in range(len(sentences))]


def report(result: dict[str, Any]) -> NoReturn:
    """Print the result and end the process at once, without waiting for threads that systems leave
    behind.
    """
    print("RESULT " + json.dumps(result), flush=True)
    os._exit(0)


def as_training(options: TranslationOptions) -> Options:
    """Return the options of a training adapter that makes a model of the same shape."""
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
    parser = argparse.ArgumentParser(
        prog=f"python -m peers.{name}", description=f"Translation by {name}."
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--forced", type=int)
    parser.add_argument("--max-length", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--whole", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--setting", type=json.loads, default={})
    parser.add_argument("--task", default="measure", choices=("measure", "try", "make"))
    arguments = parser.parse_args()
    return TranslationOptions(**{**vars(arguments), "whole": bool(arguments.whole)})
