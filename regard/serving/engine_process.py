"""Engine processes as the server sees them: started, called, and noticed when they die."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

from regard.common.errors import ModelFolderError
from regard.common.processes import module_command
from regard.serving.frames import FrameReader, Message, error_of, frames

_END = 10.0
"""Seconds that a process has to end in before it is killed."""


class EngineDied(Exception):
    """An engine process ended while a call was open; the call may be made again elsewhere."""


class EngineProcess:
    """One process with one model. Replies are matched with calls by number. `options`: of the command, threads last."""

    def __init__(self, path: Path, options: Sequence[str], on_death: Callable[[EngineProcess], None]) -> None:
        self.command = module_command("regard.serving.engine", str(path), *options)
        self.about: Message = {}
        self.warnings: list[str] = []
        self.is_retired = self.has_answered = self._is_broken = False
        self.is_intact = True
        """False once a check has found that the file of the model was written into while it was open."""
        self._on_death = on_death
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._replies: dict[int, asyncio.Queue[Message | None]] = {}
        self._numbers, self._drain = itertools.count(1), asyncio.Lock()

    async def start(self) -> None:
        """Start the process, and wait until its model is ready. Raises RegardError if it cannot be."""
        pipe = asyncio.subprocess.PIPE
        environment = {**os.environ, "OMP_NUM_THREADS": self.command[-1]}
        self._process = await asyncio.create_subprocess_exec(*self.command, stdin=pipe, stdout=pipe, env=environment)
        assert self._process.stdout is not None
        output = FrameReader(self._process.stdout)
        try:
            first = await output.receive()
        except asyncio.CancelledError:
            await self.stop()
            raise
        if first is None or "error" in first:
            await self.stop()
            status = self._process.returncode
            raise error_of(first["error"]) if first else ModelFolderError(f"its process ended with status {status}")
        self.about, self.warnings = first["ready"], first["warnings"]
        self._reader = asyncio.create_task(self._read(output))

    @property
    def pid(self) -> int | None:
        """Number of the process."""
        return self._process.pid if self._process else None

    @property
    def is_alive(self) -> bool:
        """True if the process runs and takes calls."""
        return self._reader is not None and not self._reader.done() and not self._is_broken

    @property
    def open_calls(self) -> int:
        """Number of calls that are not done."""
        return len(self._replies)

    async def replies(self, message: Message) -> AsyncGenerator[Message, None]:
        """Make a call and yield its replies, up to the one that is no part of a stream. Cancelled if left early.

        Raises EngineDied, or the error that the engine replies with.
        """
        number, queue = next(self._numbers), asyncio.Queue[Message | None]()
        self._replies[number] = queue
        is_done = False
        try:
            await self._send({"number": number, **message})
            while not is_done:
                if (reply := await queue.get()) is None:
                    raise EngineDied
                is_done = "words" not in reply
                if "error" in reply:
                    raise error_of(reply["error"])
                yield reply
        finally:
            self._replies.pop(number, None)
            if not is_done and self.is_alive:
                with contextlib.suppress(EngineDied):
                    self._write({"number": number, "call": "cancel"})

    async def stop(self) -> None:
        """Let the process end, after what it has begun if it is given the time, and kill it otherwise."""
        process = self._process
        if process is None:
            return
        assert process.stdout is not None
        self._calls.close()
        try:
            await asyncio.wait_for(process.wait(), _END)
        except asyncio.TimeoutError:
            process.kill()
            await process.wait()
        if self._reader is not None:
            await asyncio.wait([self._reader])
        else:
            await process.stdout.read()  # to its end, so that the pipe is closed

    async def retire(self) -> None:
        """Take no further calls, and end when the open ones are done."""
        self.is_retired = True
        try:
            while self._replies and self.is_alive:
                await asyncio.sleep(0.05)
        finally:
            await self.stop()

    @property
    def _calls(self) -> asyncio.StreamWriter:
        assert self._process is not None, "it was started"
        assert self._process.stdin is not None, "it is a pipe"
        return self._process.stdin

    async def _send(self, message: Message) -> None:
        self._write(message)
        try:
            async with self._drain:
                await self._calls.drain()
        except (ConnectionError, RuntimeError):
            self._is_broken = True  # the end of its output is noticed next
            raise EngineDied from None

    def _write(self, message: Message) -> None:
        if not self.is_alive or self._calls.is_closing():
            self._is_broken = True
            raise EngineDied
        self._calls.writelines(frames(message))

    async def _read(self, output: FrameReader) -> None:
        try:
            while (reply := await output.receive()) is not None:
                self.has_answered = True
                if (queue := self._replies.get(reply["number"])) is not None:
                    queue.put_nowait(reply)
        finally:
            for queue in self._replies.values():
                queue.put_nowait(None)
            if not self.is_retired:
                self._on_death(self)
