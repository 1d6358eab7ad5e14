"""Moments at which a command is killed: a call that changes files, before, amid or after it, or a
share of its time.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch

from regard.training.checkpoint import Checkpoints
from regard.training.journal import Journal

CALLS: dict[Any, list[str]] = {
    os: ["fsync", "replace"],
    Path: ["mkdir", "rename", "rmdir", "unlink", "write_bytes", "write_text"],
    shutil: ["copyfile", "rmtree"],
    safetensors.torch: ["serialize_file"],
    Journal: ["write"],
}
"""All that changes files in training and bulk translation, but for what bulk translation appends
and then syncs.
"""
STAGES = ("before", "amid", "after")


@dataclass(frozen=True)
class Call:
    """A call that an undisturbed command made: its name, whether to write a checkpoint, after how
    many seconds.
    """

    name: str
    in_checkpoint: bool
    seconds: float


class Change(NamedTuple):
    """A call that changes files, about to be made."""

    number: int
    in_checkpoint: bool
    name: str
    arguments: tuple[Any, ...]
    make: Callable[[], Any]


@dataclass(frozen=True)
class Moment:
    """Call number `call` at a stage of it or, without one, after some seconds of the command's own
    processor time.

    All processes that the command started are killed with it.
    """

    call: int | None = None
    stage: str = ""
    seconds: float = 0.0
    in_checkpoint: bool = False

    def __str__(self) -> str:
        if self.call is None:
            return f"{self.seconds:.3f} s"
        inside = ", of a checkpoint" if self.in_checkpoint else ""
        return f"{self.stage} call {self.call}{inside}"

    def arm(self) -> None:
        """Kill this process at the moment."""
        if self.call is not None:
            _patch(self._at_call)
            return

        def watch() -> None:
            while time.process_time() < self.seconds:
                time.sleep(0.0005)
            self._kill()

        threading.Thread(target=watch, daemon=True).start()

    def _kill(self) -> None:
        os.killpg(0, signal.SIGKILL)

    def _at_call(self, change: Change) -> Any:
        if change.number != self.call:
            return change.make()
        if self.stage == "after":
            change.make()
        elif self.stage == "amid":
            _make_half(change)
        self._kill()
        return None


def draw(chance: random.Random, calls: list[Call], where: str) -> Moment:
    """Draw a moment `where`: inside a "checkpoint", in another "file", or at any "time" of a
    command that made these calls.
    """
    if where == "time":
        return Moment(seconds=chance.uniform(0, max(call.seconds for call in calls)))
    inside = where == "checkpoint"
    numbers = [n for n, call in enumerate(calls) if call.in_checkpoint == inside]
    call = chance.choice(numbers)
    stage = chance.choice(STAGES)
    return Moment(call, stage, in_checkpoint=inside)


def record(log: Path) -> None:
    """Write the calls of this process into a file: a line for each."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)

    def note(change: Change) -> Any:
        line = f"{change.name} {int(change.in_checkpoint)} {time.process_time()}\n"
        os.write(file, line.encode())
        return change.make()

    _patch(note)


def recorded(log: Path) -> list[Call]:
    """Read the calls of a process."""
    lines = (line.split() for line in log.read_text().splitlines())
    return [
        Call(name, inside == "1", float(seconds)) for name, inside, seconds in lines
    ]


def _patch(do: Callable[[Change], Any]) -> None:
    """Let `do` make every call that changes files, in this process and not in those that it
    starts.
    """
    process = os.getpid()
    numbers = itertools.count()
    saves = [0]
    save = Checkpoints.save

    def save_and_mark(*arguments: Any, **options: Any) -> None:
        saves[0] += 1
        save(*arguments, **options)
        saves[0] -= 1

    def through(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*arguments: Any, **options: Any) -> Any:
            make = functools.partial(original, *arguments, **options)
            if os.getpid() != process:
                return make()
            return do(Change(next(numbers), saves[0] > 0, name, arguments, make))

        return call

    Checkpoints.save = save_and_mark  # type: ignore[method-assign,assignment]
    for owner, names in CALLS.items():
        for name in names:
            setattr(owner, name, through(name, getattr(owner, name)))


def _make_half(change: Change) -> None:
    """Make half of a call, if it has one."""
    first, *others = change.arguments
    if change.name == "rmtree":
        files = [path for path in Path(first).rglob("*") if path.is_file()]
        for path in files[:1]:
            os.unlink(path)
    elif change.name in ("serialize_file", "copyfile", "write_bytes", "write_text"):
        change.make()
        path = Path(first if change.name.startswith("write_") else others[0])
        os.truncate(path, path.stat().st_size // 2)
    elif change.name == "write":  # of the journal: its last line
        change.make()
        os.truncate(first.path, first.path.stat().st_size - 20)
