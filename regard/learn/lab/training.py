"""Train the runs of an experiment side by side, a process with one thread for each, and continue after a stop."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.common.errors import TrainingError
from regard.common.processes import module_command
from regard.comparison.entries import has_ended
from regard.training.journal import read

DIVERGED = "the gradient is infinite or NaN"
"""Part of the reason of a run that diverged, which is a result and not a failure."""
TELL, STARTUP = 20.0, 8.0
"""Seconds between two lines on progress; of a run, to start its process, read the data, and report at its end."""


@dataclass(frozen=True)
class Job:
    """A run to train: the name of its model, its recipe, folder and seed, and the updates of its recipe."""

    model: str
    recipe: Path
    folder: Path
    seed: int
    updates: int

    @property
    def done(self) -> float:
        """Share of its updates that are done."""
        events = read(self.folder / "journal.jsonl")
        return min(1.0, max((event.get("update", 0) for event in events), default=0) / self.updates)


class TrainingPool:
    """Processes that train jobs, so many at once; `say` is told of progress."""

    def __init__(self, workers: int, say: Callable[[str], None]) -> None:
        self._workers, self._say = workers, say
        self._running, self._is_stopped = set[subprocess.Popen[bytes]](), False

    def forecast(self, seconds: Sequence[float]) -> None:
        """Say how long runs that train for these seconds will take; each begins when a worker is free."""
        busy = [0.0] * self._workers
        for run in seconds:
            busy[busy.index(min(busy))] += run + STARTUP
        self._say(f"training: about {max(busy) / 60:.1f} min, by the shipped results")

    def train(self, jobs: Sequence[Job]) -> dict[Path, str]:
        """Train the runs that have not ended yet; return the reasons of those that diverged, by folder.

        Raises TrainingError for a run that failed otherwise. If this process is interrupted, the runs save their
        checkpoints first.
        """
        waiting, diverged = [job for job in jobs if not has_ended(job.folder)], dict[Path, str]()
        progress = _Progress(waiting, self._say)
        with ThreadPoolExecutor(self._workers) as pool:
            futures = {pool.submit(self._run, job): job for job in waiting}
            try:
                left = set(futures)
                while left:
                    ended, left = wait(left, TELL, FIRST_COMPLETED)
                    reasons = {futures[future].folder: future.result() for future in ended}
                    diverged |= {folder: reason for folder, reason in reasons.items() if DIVERGED in reason}
                    if failed := [folder for folder, reason in reasons.items() if reason and folder not in diverged]:
                        raise TrainingError(f"{failed[0]}: {reasons[failed[0]]}")
                    progress.tell()
            finally:
                self._is_stopped = bool(left)
                for future in futures:
                    future.cancel()
                for process in [*self._running]:
                    process.send_signal(signal.SIGTERM)
        return diverged

    def _run(self, job: Job) -> str:
        """Train a job in a process of a session of its own, which Ctrl-C does not reach; return why it failed."""
        given = (str(job.recipe), str(job.folder), str(job.seed))
        arguments = module_command("regard.learn.lab.worker", *given, call="main(*sys.argv[1:])")
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(arguments, start_new_session=True, **pipes) as process:
            self._running.add(process)
            if self._is_stopped:
                process.send_signal(signal.SIGTERM)
            assert process.stderr is not None, "it is a pipe"
            lines = process.stderr.read().decode("utf-8", "replace").strip().splitlines()
            status = process.wait()
        self._running.discard(process)
        return "" if status == 0 else lines[-1] if lines else f"training ended with status {status}"


class _Progress:
    """Progress of all jobs, told now and then with the time left."""

    def __init__(self, jobs: Sequence[Job], say: Callable[[str], None]) -> None:
        self._jobs, self._say = list(jobs), say
        self._began = self._told = time.monotonic()
        self._before = self._share()

    def _share(self) -> float:
        """Share of all updates that are done."""
        total = sum(job.updates for job in self._jobs)
        return sum(job.done * job.updates for job in self._jobs) / max(1, total)

    def tell(self) -> None:
        """Say how much is done, if it is time to."""
        now = time.monotonic()
        if now - self._told < TELL:
            return
        self._told, share = now, self._share()
        seconds, gained = now - self._began, share - self._before
        if gained <= 0:
            return
        self._say(f"training: {share:.0%}, about {max(1, round(seconds * (1 - share) / gained / 60))} min left")
