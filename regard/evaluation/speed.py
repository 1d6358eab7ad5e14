"""Speed and memory of runs: each in a process of its own, in turns, so that other work on the machine meets them all.

Such a process reads the sources as a line of JSON, then measures once for each further line, and prints a line of JSON
each time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from regard.common.errors import WorkerError
from regard.common.processes import module_command, peak_memory

ROUNDS = 3
MANY, ALONE = 200, 20
"""Sentences decoded together and one by one in each round, evenly spread over the test set."""


def measure_speed(
    runs: Mapping[str, Path], sources: Sequence[str], device: str, options: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """Return tokens_per_second, latency in seconds and memory in MiB of each run, medians of rounds in turns.

    `sources` are sentences, or paths of images. Memory is the peak of the process that loads the run and decodes.
    Raises WorkerError if one of the processes dies.
    """
    results: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    with ExitStack() as stack:
        processes = {name: stack.enter_context(_start(run, device, options)) for name, run in runs.items()}
        for name, process in processes.items():
            _ask(name, process, json.dumps(list(sources)))
        for _ in range(ROUNDS):
            for name, process in processes.items():
                results[name].append(_ask(name, process, ""))
    return {
        name: {
            "tokens_per_second": statistics.median(item["tokens_per_second"] for item in rounds),
            "latency": statistics.median(item["latency"] for item in rounds),
            "memory": max(item["memory"] for item in rounds),
        }
        for name, rounds in results.items()
    }


def _start(run: Path, device: str, options: Mapping[str, Any]) -> subprocess.Popen[str]:
    given = (str(run), device, json.dumps(dict(options)))
    arguments = module_command("regard.evaluation.speed", *given, call="serve(*sys.argv[1:])")
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def _ask(name: str, process: subprocess.Popen[str], line: str) -> dict[str, float]:
    assert process.stdin is not None, "it is a pipe"
    assert process.stdout is not None, "it is a pipe"
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        answer: dict[str, float] = json.loads(process.stdout.readline())
    except (OSError, ValueError):
        raise WorkerError(
            f"{name}: the process that measures its speed ended with status {process.wait()}; "
            "leave the measurement out with `speed=False`, or try again"
        ) from None
    return answer


def serve(run: str, device: str, options: str) -> None:
    """Answer the lines of standard input: the process that `measure_speed` starts for each run."""
    from regard.pipeline import Captioner, load

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "0")) or torch.get_num_threads())
    warnings.simplefilter("ignore")
    pipeline, search = load(run, device), json.loads(options)
    sources: list[str] = json.loads(sys.stdin.readline())
    translate = pipeline.caption if isinstance(pipeline, Captioner) else pipeline.translate
    many, alone = _spread(sources, MANY), _spread(sources, ALONE)
    translate(many[:4], **search)  # compiles and packs
    print("{}", flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        tokens = sum(len(result.tokens) + 1 for result in translate(many, **search))
        speed = tokens / (time.perf_counter() - began)
        latencies = []
        for source in alone:
            began = time.perf_counter()
            translate([source], **search)
            latencies.append(time.perf_counter() - began)
        values = {"tokens_per_second": speed, "latency": statistics.median(latencies), "memory": peak_memory() or 0.0}
        print(json.dumps(values), flush=True)


def _spread(items: Sequence[str], count: int) -> list[str]:
    """Return at most `count` items, evenly spread."""
    return [items[len(items) * number // count] for number in range(count)] if len(items) > count else list(items)
