"""Engine pool: the processes of one model, room for calls, deadlines, and calls made again after a death."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path

from regard.common.errors import ModelFolderError, RegardError
from regard.serving.engine_process import EngineDied, EngineProcess
from regard.serving.frames import Message
from regard.serving.service import DeadlineExceeded, Overloaded

ATTEMPTS = 3
"""Processes that a call may be made in, before it is believed to be what kills them."""
_END = 15.0
"""Seconds that processes have to end in."""
_PAUSE, _HEALTHY, _PATIENCE = 60.0, 30.0, 5.0
"""Seconds of the longest pause between starts, of life that ends a row of deaths, and that calls wait for a start."""
Log = Callable[[str], None]


class Backlog:
    """Characters that are waiting for one model, and the speed at which such are translated.

    The speed is measured only while there is enough to do, since a few sentences cannot share steps: until then every
    call is let in that there is room for.
    """

    BUSY = 16
    """Lines from which on the engine is believed to be busy."""

    def __init__(self, most_lines: int) -> None:
        self.most_lines, self.lines, self.characters, self.speed = most_lines, 0, 0, 0.0
        self._done, self._busy_since = 0, 0.0

    def admit(self, lines: int, characters: int, deadline: float) -> None:
        """Raise Overloaded, with the seconds after which there may be room, if a call has none, or would be late."""
        wait = (self.characters + characters) / self.speed if self.speed else 0.0
        excess = self.lines + lines - self.most_lines
        if self.lines and (excess > 0 or wait > deadline):
            until_room = wait * excess / (self.lines + lines) if self.speed else 1.0
            raise Overloaded(min(60, max(1, math.ceil(max(until_room, wait - deadline)))))

    @contextlib.contextmanager
    def holding(self, lines: int, characters: int) -> Iterator[None]:
        """Count a call while it is open."""
        self.lines, self.characters = self.lines + lines, self.characters + characters
        try:
            yield
            self._note(characters)
        finally:
            self.lines, self.characters = self.lines - lines, self.characters - characters

    def _note(self, characters: int) -> None:
        """Measure the speed over a second or more of being busy, and follow its changes slowly."""
        now = time.monotonic()
        if self.lines < self.BUSY or not self._busy_since:
            self._done, self._busy_since = 0, now if self.lines >= self.BUSY else 0.0
            return
        self._done += characters
        if now - self._busy_since > 2:
            speed = self._done / (now - self._busy_since)
            self.speed = 0.7 * self.speed + 0.3 * speed if self.speed else speed
            self._done, self._busy_since = 0, now


class EnginePool:
    """The processes of one model; each call goes to the one with the fewest open."""

    def __init__(self, path: Path, options: Sequence[str], processes: int, most_lines: int, log: Log = print) -> None:
        self.path, self.options, self.processes = path, options, processes
        self.backlog, self._log = Backlog(most_lines), log
        self.deaths = 0
        self._engines: list[EngineProcess] = []
        self._deaths_in_a_row, self._last_start, self._next_start = 0, 0.0, 0.0
        self._changed, self._closed, self._alone = asyncio.Condition(), asyncio.Event(), asyncio.Lock()
        self._tasks = set[asyncio.Task[None]]()

    async def start(self) -> Message:
        """Start all processes; return what the model says of itself. Raises RegardError if it cannot be opened."""
        return await self.replace(self.path)

    async def replace(self, path: Path) -> Message:
        """Start processes of another file; once they are ready, calls go to them, and the old ones end after theirs."""
        engines = await self._start_engines(path)
        old, self._engines, self.path = self._engines, engines, path
        self._deaths_in_a_row = 0
        for engine in old:
            self._keep(engine.retire())
        return engines[0].about

    async def close(self) -> None:
        """End all processes."""
        self._closed.set()
        for engine in self._engines:
            engine.is_retired = True
        await asyncio.gather(*(engine.stop() for engine in self._engines))
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=_END)
        for task in tasks:
            task.cancel()

    @property
    def is_ready(self) -> bool:
        """True if a process takes calls, and its model was whole at the last check."""
        is_served = any(engine.is_alive and engine.is_intact for engine in self._engines)
        return is_served and not self._closed.is_set()

    async def check(self) -> None:
        """Ask the processes whether their model is whole; of one that does not answer soon, the last answer counts."""
        await asyncio.gather(*(self._check(engine) for engine in self._engines if engine.is_alive))

    async def _check(self, engine: EngineProcess) -> None:
        try:
            async with contextlib.aclosing(engine.replies({"call": "check"})) as replies:
                await asyncio.wait_for(anext(replies), _PATIENCE)
            engine.is_intact = True
        except RegardError:
            engine.is_intact = False
        except (EngineDied, asyncio.TimeoutError):
            pass

    @property
    def pids(self) -> list[int]:
        """Numbers of the processes that live."""
        return [engine.pid for engine in self._engines if engine.is_alive and engine.pid is not None]

    async def call(self, message: Message, lines: int, characters: int, deadline: float) -> Message:
        """Make a call and return its last reply; see `stream`."""
        return [reply async for reply in self.stream(message, lines, characters, deadline)][-1]

    async def stream(
        self, message: Message, lines: int, characters: int, deadline: float
    ) -> AsyncGenerator[Message, None]:
        """Make a call and yield its replies; again in another process if one dies before the first.

        Raises Overloaded, DeadlineExceeded, RegardError.
        """
        self.backlog.admit(lines, characters, deadline)
        ends = time.monotonic() + deadline
        with self.backlog.holding(lines, characters):
            async with contextlib.aclosing(self._replies(message)) as replies:
                with contextlib.suppress(StopAsyncIteration):
                    while True:
                        try:
                            reply = await asyncio.wait_for(anext(replies), ends - time.monotonic())
                        except asyncio.TimeoutError:
                            raise DeadlineExceeded(deadline) from None
                        yield reply

    async def _replies(self, message: Message) -> AsyncGenerator[Message, None]:
        for attempt in range(ATTEMPTS):
            # Of calls that were open when processes died, each is alone in the end: the one that kills is then known.
            async with self._alone if attempt == ATTEMPTS - 1 else contextlib.nullcontext():
                engine, has_begun = await self._choose(), False
                try:
                    async with contextlib.aclosing(engine.replies(message)) as replies:
                        async for reply in replies:
                            has_begun = True
                            yield reply
                    return
                except EngineDied:
                    if has_begun or attempt == ATTEMPTS - 1:
                        raise ModelFolderError(
                            f"the process that translated this ended {attempt + 1} times while it did; send less text"
                        ) from None

    async def _choose(self) -> EngineProcess:
        """Return the process with the fewest open calls, as soon as there is one. Raises Overloaded if none is soon."""
        async with self._changed:
            while not any(engine.is_alive for engine in self._engines):
                wait = self._next_start - time.monotonic()
                if wait > _PATIENCE or self._closed.is_set():
                    raise Overloaded(max(1, math.ceil(wait)))
                await self._changed.wait()
        return min((engine for engine in self._engines if engine.is_alive), key=lambda engine: engine.open_calls)

    async def _start_engines(self, path: Path) -> list[EngineProcess]:
        engines = [self._new(path) for _ in range(self.processes)]
        self._last_start = time.monotonic()
        outcomes = await asyncio.gather(*(engine.start() for engine in engines), return_exceptions=True)
        if problems := [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
            for engine in engines:
                engine.is_retired = True
                await engine.stop()
            raise problems[0]
        return engines

    def _new(self, path: Path) -> EngineProcess:
        return EngineProcess(path, self.options, self._note_death)

    def _note_death(self, engine: EngineProcess) -> None:
        if self._closed.is_set() or engine not in self._engines:
            return
        self.deaths += 1
        is_sound = engine.has_answered or time.monotonic() - self._last_start > _HEALTHY
        self._deaths_in_a_row = 1 if is_sound else self._deaths_in_a_row + 1
        self._engines.remove(engine)
        self._log(f"{self.path.name}: process {engine.pid} has ended; another is started")
        self._keep(engine.stop())
        self._keep(self._restart())

    async def _restart(self) -> None:
        """Start a process in the place of one that died; if they die one after the other, after pauses that double."""
        while not self._closed.is_set():
            pause = min(_PAUSE, 2.0 ** (self._deaths_in_a_row - 2)) if self._deaths_in_a_row > 1 else 0.0
            self._next_start = time.monotonic() + pause
            async with self._changed:
                self._changed.notify_all()  # calls may not want to wait so long
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._closed.wait(), pause)
            if self._closed.is_set() or len(self._engines) >= self.processes:  # replaced meanwhile
                return
            engine = self._new(self.path)
            self._last_start = time.monotonic()
            try:
                await engine.start()
            except (RegardError, OSError) as problem:
                self._log(f"{self.path.name}: cannot be started again: {problem}")
                self._deaths_in_a_row += 1
                continue
            if self._closed.is_set():
                await engine.stop()
            else:
                self._engines.append(engine)
            break
        async with self._changed:
            self._changed.notify_all()

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        """Run something beside, and keep it from being collected."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
