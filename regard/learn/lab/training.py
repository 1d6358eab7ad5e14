"""Train the runs of an experiment in parallel worker processes with one thread each.

An interrupted run is resumed from its checkpoint.
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

from regard.common.errors import TrainingError
from regard.common.processes import module_command
from regard.comparison.entries import has_ended
from regard.training.journal import last_update, read

DIVERGED = "the gradient is infinite or NaN"
"""Part of the error of a run that diverged, which is a result and not a failure."""
ENDED = "training ended: "
"""Prefix of the line that a worker prints at the end of a run.

The reason of a failure, or an empty string, follows as JSON.
"""
PROGRESS_INTERVAL = 20.0
"""Seconds between two lines on progress."""
STARTUP = 4.0
"""Seconds that a run takes to read the data and to report at its end."""


@dataclass(frozen=True)
class Job:
    """A run to train."""

    model: str
    recipe: Path
    folder: Path
    seed: int
    updates: int  # total number, by the recipe

    @property
    def done(self) -> int:
        """Number of finished updates."""
        return last_update(read(self.folder / "journal.jsonl"))


class TrainingPool:
    """Pool of `workers` processes that train jobs; `say` is called with lines on progress."""

    def __init__(self, workers: int, say: Callable[[str], None]) -> None:
        self._workers = workers
        self._say = say
        self._is_stopped = False
        self._processes = list[subprocess.Popen[str]]()
        self._idle = list[subprocess.Popen[str]]()

    def forecast(self, seconds: Sequence[float]) -> None:
        """Report how long runs with these training times will take with all workers."""
        busy = [0.0] * self._workers
        for run_seconds in seconds:
            first_free = busy.index(min(busy))
            busy[first_free] += run_seconds + STARTUP
        self._say(f"training: about {max(busy) / 60:.1f} min, by the shipped results")

    def train(self, jobs: Sequence[Job]) -> dict[Path, str]:
        """Train the runs that have not ended yet; return the folders of diverged runs with their
        errors.

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
        """Wait until all runs have ended, and report progress and the remaining time.

        Return the folders of diverged runs with their errors. Raises TrainingError for a run that
        failed otherwise.
        """
        pending = set(futures)
        diverged = dict[Path, str]()
        jobs = futures.values()
        done_before = sum(job.done for job in jobs)
        total = sum(job.updates for job in jobs)
        started = time.monotonic()
        last_report = started
        while pending:
            ended, pending = wait(pending, PROGRESS_INTERVAL, FIRST_COMPLETED)
            for future in ended:
                folder = futures[future].folder
                reason = future.result()
                if DIVERGED in reason:
                    diverged[folder] = reason
                elif reason:
                    raise TrainingError(f"{folder}: {reason}")

            now = time.monotonic()
            if now - last_report < PROGRESS_INTERVAL:
                continue
            done = sum(job.done for job in jobs)
            if done > done_before:
                last_report = now
                seconds_per_update = (now - started) / (done - done_before)
                minutes = max(1, round(seconds_per_update * (total - done) / 60))
                self._say(f"training: {done / total:.0%}, about {minutes} min left")
        return diverged

    def _run(self, job: Job) -> str:
        """Train a job in an idle or a new process; return why it failed, or an empty string."""
        process = self._idle.pop() if self._idle else self._start()
        if self._is_stopped:
            process.send_signal(signal.SIGTERM)
        request = json.dumps([str(job.recipe), str(job.folder), job.seed])
        with suppress(BrokenPipeError):
            print(request, file=process.stdin, flush=True)

        last_line = ""
        for line in process.stdout or ():
            if line.startswith(ENDED):
                self._idle.append(process)
                return str(json.loads(line.removeprefix(ENDED)))
            last_line = line.strip() or last_line
        return last_line or f"training ended with status {process.wait()}"

    def _start(self) -> subprocess.Popen[str]:
        """Start a worker in its own session, so that Ctrl-C does not reach it."""
        process = subprocess.Popen(
            module_command("regard.learn.lab.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        self._processes.append(process)
        return process
