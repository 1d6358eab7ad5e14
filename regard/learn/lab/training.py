"""Train the runs of an experiment side by side, a process with one thread for each, and continue after a stop."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from regard.common.errors import TrainingError
from regard.common.processes import module_command
from regard.comparison.entries import has_ended
from regard.training.journal import read

POLL, TELL = 0.3, 20.0
"""Seconds between two looks at the processes, and between two lines on progress."""
LITTLE = 0.1
"""Share of the updates after which the time that is left is known well enough to be complained of."""


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


@dataclass
class _Process:
    job: Job
    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    def end(self) -> str:
        """Wait for the process to end; return the reason if it failed."""
        status = self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").strip().splitlines()
        self.errors.close()
        if self.process.stdin is not None:
            self.process.stdin.close()
        return "" if status == 0 else lines[-1] if lines else f"training ended with status {status}"


class TrainingPool:
    """Processes that train jobs, so many at once; `say` is told of progress, and if it takes longer than `minutes`."""

    def __init__(self, workers: int, minutes: float, say: Callable[[str], None]) -> None:
        self._workers, self._minutes, self._say = workers, minutes, say
        self._running, self._began = list[_Process](), time.monotonic()

    def train(self, jobs: Sequence[Job], may_fail: bool = False) -> dict[Path, str]:
        """Train the runs that have not ended yet; return the reasons of runs that failed, by folder.

        Raises TrainingError for a run that failed unless it `may_fail`. If this process is interrupted, the runs save
        their checkpoints first.
        """
        waiting = [job for job in jobs if not has_ended(job.folder)]
        failed, progress = dict[Path, str](), _Progress(waiting, self._began + 60 * self._minutes, self._say)
        try:
            while waiting or self._running:
                while waiting and len(self._running) < self._workers:
                    self._running.append(_start(waiting.pop(0)))
                for job, reason in self._ended():
                    if reason and not may_fail:
                        raise TrainingError(f"{job.folder}: {reason}")
                    failed |= {job.folder: reason} if reason else {}
                progress.tell()
                time.sleep(POLL)
        finally:
            self._stop()
        return failed

    def _ended(self) -> Iterator[tuple[Job, str]]:
        """Yield the jobs whose process has ended, with the reason of a failure or nothing."""
        for running in [item for item in self._running if item.process.poll() is not None]:
            self._running.remove(running)
            yield running.job, running.end()

    def _stop(self) -> None:
        """Let the processes save their checkpoints and end."""
        for running in self._running:
            with suppress(ProcessLookupError):
                running.process.send_signal(signal.SIGTERM)
        for running in self._running:
            running.end()
        self._running.clear()


def _start(job: Job) -> _Process:
    """Start the process of a job, in a session of its own: Ctrl-C reaches it through this process, once."""
    given = (str(job.recipe), str(job.folder), str(job.seed))
    arguments = module_command("regard.learn.lab.worker", *given, call="main(*sys.argv[1:])")
    errors = TemporaryFile()  # noqa: SIM115 (closed when the process has ended)
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": errors}
    return _Process(job, subprocess.Popen(arguments, start_new_session=True, **options), errors)


class _Progress:
    """Progress of all jobs, told now and then with the time left; `promised` is the time at which all is to be done."""

    def __init__(self, jobs: Sequence[Job], promised: float, say: Callable[[str], None]) -> None:
        self._jobs, self._promised, self._say = list(jobs), promised, say
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
        left = seconds * (1 - share) / gained
        self._say(f"training: {share:.0%}, about {max(1, round(left / 60))} min left")
        if now + left > self._promised and gained > LITTLE:
            self._say(
                f"this takes longer here than it should: some {round((now + left - self._promised) / 60)} min more"
            )
            self._promised = float("inf")
