"""A process that its supervisor keeps running, and how the two talk: lines of JSON through the standard streams."""

from __future__ import annotations

import base64
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

BEAT_SECONDS = 1.0
"""Seconds between two beats of a process, by which it says that it does not hang."""
_SILENT_SECONDS, _START_SECONDS = 10.0, 600.0
"""Seconds without a beat, and without the first one, after which a process is killed."""
_LONGEST_PAUSE = 60.0
Clock = Callable[[], float]
Events = queue.SimpleQueue[tuple["ChildProcess | None", Mapping[str, Any]]]
"""Messages of processes; of none: a signal. The last one of a process is empty: it has ended."""


class ChildProcess:
    """A process that is started again when it has died: at once, if it was ready; after pauses that double, if not.

    It gets its configuration and commands by standard input, a line each, and ends what it has begun when there are no
    more. It tells by standard output (`status_pipe`) that it is ready, and that it does not hang.
    """

    def __init__(self, name: str, command: Sequence[str], events: Events, clock: Clock = time.monotonic) -> None:
        self.name, self.command, self._events, self._clock = name, command, events, clock
        self.process: subprocess.Popen[bytes] | None = None
        self.is_ready = self.was_ready = self.is_stopping = False
        self.next_start = 0.0
        self._deaths_in_a_row = 0
        self._limit = self._ready_at = 0.0
        self._reader: threading.Thread | None = None

    def start(self, configuration: Mapping[str, Any], listener: socket.socket | None = None) -> None:
        """Start the process, which shares the socket. A signal of the terminal does not reach it."""
        options: dict[str, Any] = {"start_new_session": True, "pass_fds": [listener.fileno()] if listener else []}
        if sys.platform == "win32":
            options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        environment = {**os.environ, "MALLOC_ARENA_MAX": "2"}  # else each thread keeps what it has freed
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, env=environment, **options)
        self.is_ready = self.is_stopping = False
        self._limit = self._clock() + _START_SECONDS
        self._reader = threading.Thread(target=self._read, args=[self.process], daemon=True)
        self._reader.start()
        shared = {} if listener is None else {"listener": _share(listener, self.process.pid)}
        self.tell(json.dumps({**configuration, **shared}))

    def tell(self, line: str) -> None:
        """Send a line."""
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError):  # it has ended, which is noted next
                self.process.stdin.write(line.encode() + b"\n")
                self.process.stdin.flush()

    def stop(self, seconds: float) -> None:
        """Let the process end, within so many seconds, after what it has begun."""
        self._close_input()
        self.is_stopping, self._limit = True, self._clock() + seconds

    def kill(self) -> None:
        """End the process at once."""
        if self.process is not None:
            self.process.kill()
            self._close_input()

    def wait(self) -> None:
        """Wait until the process has ended."""
        if self._reader is not None:
            self._reader.join()

    def note(self, message: Mapping[str, Any]) -> None:
        """Note that the process is ready, or beats."""
        if "ready" in message:
            self.is_ready = self.was_ready = True
            self._ready_at = self._clock()
        if "beat" in message and not self.is_stopping:
            self._limit = self._clock() + _SILENT_SECONDS

    def note_end(self) -> int | None:
        """Note that the process has ended, and choose when the next is to start. Returns the exit status.

        One that was to end, but had hardly begun, is like one that was not ready: the next will have to end as soon.
        """
        has_lived = self._clock() - self._ready_at >= _LONGEST_PAUSE
        is_healthy = self.is_ready and (has_lived or not self.is_stopping)
        self._deaths_in_a_row = 1 if is_healthy else self._deaths_in_a_row + 1
        pause = min(_LONGEST_PAUSE, 2.0 ** (self._deaths_in_a_row - 2)) if self._deaths_in_a_row > 1 else 0.0
        self.next_start = self._clock() + pause
        self._close_input()
        status = self.process.returncode if self.process is not None else None
        self.process, self.is_ready, self.is_stopping = None, False, False
        return status

    def allow(self, seconds: float) -> None:
        """Let the process have more time: the supervisor itself was held up."""
        self._limit += seconds

    @property
    def is_overdue(self) -> bool:
        """True if the process hangs, or should have ended."""
        return self.process is not None and self._clock() >= self._limit

    @property
    def memory(self) -> int:
        """Bytes of the process that are in memory; 0 if the system does not tell."""
        if self.process is None:
            return 0
        try:
            pages = Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1]
        except OSError:
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def _close_input(self) -> None:
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with suppress(ValueError):  # it has died in the middle of a line, or something else has printed one
                    self._events.put((self, json.loads(line)))
        process.wait()
        self._events.put((self, {}))


def _share(listener: socket.socket, pid: int) -> int | str:
    """Return as JSON by what another process has this socket."""
    if sys.platform == "win32":
        return base64.b64encode(listener.share(pid)).decode()
    return listener.fileno()


def shared_socket(shared: Any) -> socket.socket:
    """Return the socket that the supervisor shares, in its process."""
    if sys.platform == "win32":
        return socket.fromshare(base64.b64decode(shared))
    return socket.socket(fileno=shared)


def status_pipe() -> Callable[..., None]:
    """Take standard output as the pipe to the supervisor; what is printed goes to standard error from now on.

    Returns the function that sends a message, as `report(beat=1)`, from any thread.
    """
    output, lock = os.fdopen(os.dup(1), "wb"), threading.Lock()
    os.dup2(2, 1)

    def report(**message: Any) -> None:
        with lock, suppress(OSError):  # the supervisor is gone, which standard input tells, too
            output.write(json.dumps(message).encode() + b"\n")
            output.flush()

    return report
