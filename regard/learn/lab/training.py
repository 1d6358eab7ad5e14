"""Train the runs of an experiment side by side, in processes with one thread each, and continue
after a stop.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.common.errors import TrainingError
from regard.common.processes import module_command
from regard.comparison.entries import has_ended
from regard.training.journal import read

DIVERGED = "the gradient is infinite or NaN"
"""Part of the reason of a run that diverged, which is a result and not a failure."""
ENDED = "training ended: "
"""Begins the line that a worker prints at the end of a run; behind it is why the run failed, as
JSON.
"""
TELL, STARTUP = 20.0, 4.0
"""Seconds between two lines on progress; of a run, to read the data, and to report at its end."""


@dataclass(frozen=True)
class Job:
    """A run to train: the name of its model, its recipe, folder and seed, and the updates of its
    recipe.
    """

    model: str
    recipe: Path
    folder: Path
    seed: int
    updates: int

    @property
    def done(self) -> int:
        """Number of its updates that are done."""
        return max(
            (event.get("update", 0) for event in read(self.folder / "journal.jsonl")),
            default=0,
        )


class TrainingPool:
    """Processes that train jobs, so many at once; `say` is told of progress."""

    def __init__(self, workers: int, say: Callable[[str], None]) -> None:
        self._workers = workers
        self._say = say
        self._is_stopped = False
        self._processes = list[subprocess.Popen[str]]()
        self._idle = list[subprocess.Popen[str]]()

    def forecast(self, seconds: Sequence[float]) -> None:
        """Say how long runs that train for these seconds will take; each begins when a worker is
        free.
        """
        busy = [0.0] * self._workers
        for run in seconds:
            busy[busy.index(min(busy))] += run + STARTUP
        self._say(f"training: about {max(busy) / 60:.1f} min, by the shipped results")

    def train(self, jobs: Sequence[Job]) -> dict[Path, str]:
        """Train the runs that have not ended yet; return the reasons of those that diverged, by
        folder.

        Raises TrainingError for a run that failed otherwise. If this process is interrupted, the
        runs save their checkpoints first.
        """
        waiting = [job for job in jobs if not has_ended(job.folder)]
        try:
            with ThreadPoolExecutor(self._workers) as pool:
                futures = {pool.submit(self._run, job): job for job in waiting}
                try:
                    return self._diverged(futures)
                finally:
                    self._is_stopped = not all(future.done() for future in futures)
                    pool.shutdown(wait=False, cancel_futures=True)
                    for process in self._processes:
                        process.send_signal(signal.SIGTERM)
        finally:
            self._idle.clear()
            while self._processes:
                self._processes.pop().communicate()

    def _diverged(self, futures: Mapping[Future[str], Job]) -> dict[Path, str]:
        """Wait until all runs have ended, and tell now and then how much is done, and the time
        left.
        """
        left = set(futures)
        diverged = dict[Path, str]()
        jobs = futures.values()
        before = sum(job.done for job in jobs)
        whole = sum(job.updates for job in jobs)
        began = spoke = time.monotonic()
        while left:
            ended, left = wait(left, TELL, FIRST_COMPLETED)
            reasons = {
                futures[future].folder: reason
                for future in ended
                if (reason := future.result())
            }
            diverged |= {
                folder: reason
                for folder, reason in reasons.items()
                if DIVERGED in reason
            }
            if failed := [folder for folder in reasons if folder not in diverged]:
                raise TrainingError(f"{failed[0]}: {reasons[failed[0]]}")
            if (now := time.monotonic()) - spoke >= TELL and (
                done := sum(job.done for job in jobs)
            ) > before:
                spoke = now
                minutes = (now - began) * (whole - done) / (done - before) / 60
                self._say(
                    f"training: {done / whole:.0%}, about {max(1, round(minutes))} min left"
                )
        return diverged

    def _run(self, job: Job) -> str:
        """Let a process that has nothing to do, or a new one, train a job; return why it failed."""
        process = self._idle.pop() if self._idle else self._start()
        if self._is_stopped:
            process.send_signal(signal.SIGTERM)
        with suppress(BrokenPipeError):
            print(
                json.dumps([str(job.recipe), str(job.folder), job.seed]),
                file=process.stdin,
                flush=True,
            )
        last = ""
        for line in process.stdout or ():
            if line.startswith(ENDED):
                self._idle.append(process)
                return str(json.loads(line.removeprefix(ENDED)))
            last = line.strip() or last
        return last or f"training ended with status {process.wait()}"

    def _start(self) -> subprocess.Popen[str]:
        """Start a process in a session of its own, which Ctrl-C does not reach."""
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
        }
        pipes |= {"encoding": "utf-8", "errors": "replace", "start_new_session": True}
        process = subprocess.Popen(module_command("regard.learn.lab.worker"), **pipes)
        self._processes.append(process)
        return process
