"""Measure speed and memory of runs, in separate processes that take turns.

By the turns, other work on the machine affects all runs alike. Each process reads the sources as a
line of JSON, then measures once for each further line, and prints a line of JSON each time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import torch

from regard.common.errors import WorkerError
from regard.common.processes import module_command, peak_memory
from regard.runtime.engine import EngineName

ROUNDS = 3
MANY, ALONE = 200, 20
"""Numbers of sentences that each round decodes together and one by one, evenly spread."""


@dataclass(frozen=True)
class Timing:
    """Target tokens per second and latency in seconds of each round, and peak memory in MiB."""

    speeds: tuple[float, ...]
    latencies: tuple[float, ...]
    memory: float


@dataclass(frozen=True)
class _Worker:
    """A process that measures one run, with the file of its standard error."""

    process: subprocess.Popen[str]
    errors: IO[bytes]

    def ask(self, line: str) -> dict[str, float]:
        """Send a line and return the answer.

        If there is none, the process is ended, and WorkerError with the cause is raised.
        """
        assert self.process.stdin is not None, "it is a pipe"
        assert self.process.stdout is not None, "it is a pipe"
        answer = ""
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            values: dict[str, float] = json.loads(answer)
        except (OSError, ValueError):
            raise WorkerError(self._end(answer)) from None
        return values

    def _end(self, answer: str) -> str:
        """End the process, and return the reason why it did not answer."""
        assert self.process.stdin is not None, "it is a pipe"
        with suppress(OSError):  # raised if the process has not read everything
            self.process.stdin.close()
        if answer:
            # The process is alive, but something else writes to its standard output.
            self.process.kill()
            return (
                f"its process wrote {answer.strip()[:80]!r} in place of a measurement"
            )
        status = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"its process ended with status {status}"


def measure_speed(
    runs: Mapping[str, Path],
    sources: Sequence[str],
    device: str,
    options: Mapping[str, object],
    engine: EngineName = "auto",
    say: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, Timing], list[str]]:
    """Return the times and the memory of each run in rounds, in which the runs take turns.

    `say` is told of the progress. `sources` are sentences, or paths of images; `engine` is as
    in `regard.load`. Memory is the peak of the process that loads the run and decodes. A run whose
    process fails is left out, and the second result has a sentence with the cause.
    """
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    causes: dict[str, str] = {}
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(_start(run, device, options, engine))
            for name, run in runs.items()
        }
        for number, line in enumerate((json.dumps(list(sources)), *[""] * ROUNDS)):
            say(f"speed: round {number} of {ROUNDS}" if number else "speed: loading")
            for name, worker in workers.items():
                if name in causes:
                    continue
                try:
                    rounds[name].append(worker.ask(line))
                except WorkerError as problem:
                    causes[name] = (
                        f"{name}: speed and memory could not be measured: {problem}"
                    )
    results = {
        name: _timing(answers[1:])
        for name, answers in rounds.items()
        if name not in causes
    }
    return results, list(causes.values())


def _timing(rounds: Sequence[Mapping[str, float]]) -> Timing:
    return Timing(
        tuple(answer["tokens_per_second"] for answer in rounds),
        tuple(answer["latency"] for answer in rounds),
        max(answer["memory"] for answer in rounds),
    )


@contextmanager
def _start(
    run: Path, device: str, options: Mapping[str, object], engine: EngineName
) -> Iterator[_Worker]:
    values = (str(run), device, json.dumps(dict(options)), engine)
    command = module_command(
        "regard.evaluation.speed", *values, call="serve(*sys.argv[1:])"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        ) as process,
    ):
        yield _Worker(process, errors)


def serve(run: str, device: str, options: str, engine: EngineName) -> None:
    """Answer the lines of standard input, in the process that `measure_speed` starts for a run."""
    from regard.pipeline import Captioner, load

    torch.set_num_threads(
        int(os.environ.get("OMP_NUM_THREADS", "0")) or torch.get_num_threads()
    )
    warnings.simplefilter("ignore")
    pipeline = load(run, device, engine=engine)
    search = json.loads(options)
    sources: list[str] = json.loads(sys.stdin.readline())
    translate = (
        pipeline.caption if isinstance(pipeline, Captioner) else pipeline.translate
    )
    many = _spread(sources, MANY)
    alone = _spread(sources, ALONE)
    translate(many[:4], **search)  # warm-up: compiles kernels and packs weights
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
        values = {
            "tokens_per_second": speed,
            "latency": statistics.median(latencies),
            "memory": peak_memory() or 0.0,
        }
        print(json.dumps(values), flush=True)


def _spread(items: Sequence[str], count: int) -> list[str]:
    """Return at most `count` items, evenly spread."""
    if len(items) <= count:
        return list(items)
    return [items[len(items) * number // count] for number in range(count)]
