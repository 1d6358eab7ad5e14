"""Moments at which a command is killed: a call that changes files, before, amid or after it, or a
share of its time.
"""

from __future__ import annotations

import functools
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch

from regard.training.checkpoint import Checkpoints
from regard.training.journal import Journal

CALLS: list[tuple[Any, str]] = [
    *((os, name) for name in ("fsync", "replace")),
    *(
        (Path, name)
        for name in ("mkdir", "rename", "rmdir", "unlink", "write_bytes", "write_text")
    ),
    *((shutil, name) for name in ("copyfile", "rmtree")),
    (safetensors.torch, "serialize_file"),
    (Journal, "write"),
]
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

    def _at_call(
        self,
        number: int,
        _: bool,
        name: str,
        call: Callable[[], Any],
        arguments: tuple[Any, ...],
    ) -> Any:
        if number != self.call:
            return call()
        if self.stage == "before" or (
            self.stage == "amid" and not _half(name, call, arguments)
        ):
            self._kill()
        result = call() if self.stage == "after" else None
        self._kill()
        return result


def draw(chance: random.Random, calls: list[Call], where: str) -> Moment:
    """Draw a moment `where`: inside a "checkpoint", in another "file", or at any "time" of a
    command that made these calls.
    """
    if where == "time":
        return Moment(seconds=chance.uniform(0, max(call.seconds for call in calls)))
    eligible = [
        number
        for number, call in enumerate(calls)
        if call.in_checkpoint == (where == "checkpoint")
    ]
    return Moment(
        chance.choice(eligible), chance.choice(STAGES), 0.0, where == "checkpoint"
    )


def record(log: Path) -> None:
    """Write the calls of this process into a file: a line for each."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)

    def note(
        _: int,
        in_checkpoint: bool,
        name: str,
        call: Callable[[], Any],
        __: tuple[Any, ...],
    ) -> Any:
        os.write(file, f"{name} {int(in_checkpoint)} {time.process_time()}\n".encode())
        return call()

    _patch(note)


def recorded(log: Path) -> list[Call]:
    """Read the calls of a process."""
    lines = (line.split() for line in log.read_text().splitlines())
    return [
        Call(name, inside == "1", float(seconds)) for name, inside, seconds in lines
    ]


def _patch(
    do: Callable[[int, bool, str, Callable[[], Any], tuple[Any, ...]], Any],
) -> None:
    """Let `do` make every call that changes files, in this process and not in those that it
    starts.
    """
    process = os.getpid()
    count = [0]
    saves = [0]
    save = Checkpoints.save

    def save_and_mark(*arguments: Any, **options: Any) -> None:
        saves[0] += 1
        save(*arguments, **options)
        saves[0] -= 1

    def through(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*arguments: Any, **options: Any) -> Any:
            if os.getpid() != process:
                return original(*arguments, **options)
            count[0] += 1
            return do(
                count[0] - 1,
                saves[0] > 0,
                name,
                lambda: original(*arguments, **options),
                arguments,
            )

        return call

    Checkpoints.save = save_and_mark  # type: ignore[method-assign,assignment]
    for owner, name in CALLS:
        setattr(owner, name, through(name, getattr(owner, name)))


def _half(name: str, call: Callable[[], Any], arguments: tuple[Any, ...]) -> bool:
    """Make half of a call; False, and nothing done, if it has no half."""
    if name == "rmtree":
        files = [path for path in Path(arguments[0]).rglob("*") if path.is_file()]
        if files:
            os.unlink(files[0])
        return bool(files)
    written = {"serialize_file": 1, "copyfile": 1, "write_bytes": 0, "write_text": 0}
    if name in written:
        call()
        path = Path(arguments[written[name]])
        os.truncate(path, path.stat().st_size // 2)
    elif name == "write":  # of the journal: its last line
        call()
        os.truncate(arguments[0].path, arguments[0].path.stat().st_size - 20)
    return name in written or name == "write"
