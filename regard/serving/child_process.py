"""A process that its supervisor keeps running, and how the two talk: lines of JSON through the
standard streams.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

BEAT_SECONDS = 1.0
"""Seconds between two beats of a process, by which it says that it does not hang."""
_SILENT_SECONDS, _START_SECONDS = 10.0, 600.0
"""Seconds without a beat, and without the first one, after which a process is killed."""
_SHORTEST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
Events = queue.SimpleQueue[tuple["ChildProcess | None", Mapping[str, Any]]]
"""Messages of processes; of none: a signal. The last one of a process is empty: it has ended."""


class ChildProcess:
    """A process that is started again when it has died: at once, if it was ready; after pauses that
    double, if not.

    It gets its configuration and commands by standard input, a line each, and ends what it has
    begun when there are no more. It tells by standard output (`status_pipe`) that it is ready, and
    that it does not hang. `listener`: a socket that it shares.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        events: Events,
        listener: socket.socket | None = None,
    ) -> None:
        self.name = name
        self._command = command
        self._events = events
        self._listener = listener
        self.process: subprocess.Popen[bytes] | None = None
        self.is_ready = self.is_stopping = False
        self.pause = 0.0
        """Seconds until the next start."""
        self._next_pause = _SHORTEST_PAUSE
        # Until it is killed, and since it is ready.
        self._seconds_left = self._seconds_ready = 0.0
        self._reader = threading.Thread()

    def start(self, configuration: Mapping[str, Any]) -> None:
        """Start the process. A signal of the terminal does not reach it. Raises OSError if the
        system has no room.
        """
        listener = self._listener
        options: dict[str, Any] = {
            "start_new_session": True,
            "pass_fds": [listener.fileno()] if listener else [],
        }
        if sys.platform == "win32":
            options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        # Else each thread keeps what it has freed.
        environment = {
            **os.environ,
            "MALLOC_ARENA_MAX": "2",
        }
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, env=environment, **options
        )
        self._seconds_left = _START_SECONDS
        self._reader = threading.Thread(
            target=self._read, args=[self.process], daemon=True
        )
        self._reader.start()
        shared = _share(listener, self.process.pid) if listener else None
        self.tell(json.dumps({**configuration, "listener": shared}))

    def tell(self, line: str) -> None:
        """Send a line."""
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError, ValueError):  # it has ended, which is noted next
                self.process.stdin.write(line.encode() + b"\n")
                self.process.stdin.flush()

    def stop(self, seconds: float) -> None:
        """Let the process end, within so many seconds, after what it has begun."""
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        self.is_stopping = True
        self._seconds_left = seconds

    def end(self) -> None:
        """End the process at once, and wait for that."""
        if self.process is not None:
            self.process.kill()
            self._reader.join()

    def note(self, message: Mapping[str, Any]) -> None:
        """Note that the process is ready, or beats."""
        if "ready" in message:
            self.is_ready = True
            self._seconds_ready = 0.0
        if "beat" in message and not self.is_stopping:
            self._seconds_left = _SILENT_SECONDS

    def note_end(self) -> int | None:
        """Note that the process has ended, and choose when the next is to start. Return the exit
        status.

        One that was stopped within a minute of being ready counts as one that could not start: its
        successor would soon be stopped, too.
        """
        has_lived = self._seconds_ready >= _LONGEST_PAUSE
        if self.is_ready and (has_lived or not self.is_stopping):
            self.pause = 0.0
            self._next_pause = _SHORTEST_PAUSE
        else:
            self.pause, self._next_pause = (
                self._next_pause,
                min(_LONGEST_PAUSE, 2 * self._next_pause),
            )
        status = self.process.returncode if self.process is not None else None
        self.process = None
        self.is_ready = False
        self.is_stopping = False
        return status

    def advance(self, seconds: float) -> None:
        """Note that so much time has passed. Ends the process at once if it hangs, or should have
        ended.
        """
        self.pause = max(0.0, self.pause - seconds)
        self._seconds_ready += seconds
        self._seconds_left -= seconds
        if self.process is not None and self._seconds_left <= 0:
            self.process.kill()

    @property
    def memory(self) -> int:
        """Bytes of the process that are in memory; 0 if it has ended."""
        if self.process is None:
            return 0
        try:
            pages = (
                Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1]
            )
        except OSError:
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with suppress(OSError), process:  # which closes the pipes and waits
            for line in process.stdout:
                with suppress(
                    ValueError
                    # It has died in the middle of a line, or something else has printed
                    # one.
                ):
                    if isinstance(message := json.loads(line), dict) and message:
                        self._events.put((self, message))
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
    """Take standard output as the pipe to the supervisor; what is printed goes to standard error
    from now on.

    Returns the function that sends a message, as `report(beat=1)`, from any thread.
    """
    output = os.fdopen(os.dup(1), "wb")
    lock = threading.Lock()
    os.dup2(2, 1)

    def report(**message: Any) -> None:
        # The supervisor is gone, which standard input tells, too.
        with lock, suppress(OSError):
            output.write(json.dumps(message).encode() + b"\n")
            output.flush()

    return report
