"""Processes that a supervisor keeps running, and the messages between them.

Messages are lines of JSON on the standard streams of the child process.
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
"""Seconds between two heartbeats of a process."""
_SILENT_SECONDS = 10.0
"""Seconds without a heartbeat after which a process is killed."""
_START_SECONDS = 600.0
"""Seconds that a process may take until its first heartbeat."""
_SHORTEST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
Events = queue.SimpleQueue[tuple["ChildProcess | None", Mapping[str, Any]]]
"""Messages of child processes, or signals if the process is None.

The last message of a process is empty and says that it has ended.
"""


class ChildProcess:
    """A process that is started again whenever it ends.

    A process that was ready is started again at once, any other after an exponentially growing
    pause. The process reads its configuration and its commands from standard input, one a line, and
    shuts down gracefully at the end of the input. On standard output (`status_pipe`) it reports
    that it is ready, and sends heartbeats. `listener`: a socket that the process shares.
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
        self.is_ready = False
        self.is_stopping = False
        self.pause = 0.0
        """Seconds until the next start."""
        self._next_pause = _SHORTEST_PAUSE
        self._seconds_left = 0.0  # until the process is killed
        self._seconds_ready = 0.0  # since the process became ready
        self._reader = threading.Thread()

    def start(self, configuration: Mapping[str, Any]) -> None:
        """Start the process in a session of its own, so that no signal of the terminal reaches it.

        Raises OSError if the system has no resources for it.
        """
        listener = self._listener
        options: dict[str, Any] = {
            "start_new_session": True,
            "pass_fds": [listener.fileno()] if listener else [],
        }
        if sys.platform == "win32":
            options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        # With more arenas, glibc keeps the memory that each thread has freed.
        environment = {**os.environ, "MALLOC_ARENA_MAX": "2"}
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
        """Send a line to the process."""
        if self.process is not None and self.process.stdin is not None:
            # If the process has ended, its reader reports that.
            with suppress(OSError, ValueError):
                self.process.stdin.write(line.encode() + b"\n")
                self.process.stdin.flush()

    def stop(self, seconds: float) -> None:
        """Let the process finish its open work and end within `seconds`."""
        if self.process is not None and self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        self.is_stopping = True
        self._seconds_left = seconds

    def end(self) -> None:
        """Kill the process, and wait until it has ended."""
        if self.process is not None:
            self.process.kill()
            self._reader.join()

    def note(self, message: Mapping[str, Any]) -> None:
        """Take a message of the process that it is ready, or a heartbeat."""
        if "ready" in message:
            self.is_ready = True
            self._seconds_ready = 0.0
        if "beat" in message and not self.is_stopping:
            self._seconds_left = _SILENT_SECONDS

    def note_end(self) -> int | None:
        """Record that the process has ended, set the pause before its next start, and return the
        exit status.

        A process that was stopped within a minute of becoming ready counts as one that could not
        start, because its successor would soon be stopped too.
        """
        is_long_lived = self._seconds_ready >= _LONGEST_PAUSE
        if self.is_ready and (is_long_lived or not self.is_stopping):
            self.pause = 0.0
            self._next_pause = _SHORTEST_PAUSE
        else:
            self.pause = self._next_pause
            self._next_pause = min(_LONGEST_PAUSE, 2 * self._next_pause)

        status = self.process.returncode if self.process is not None else None
        self.process = None
        self.is_ready = False
        self.is_stopping = False
        return status

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on the clock of the process; kill it if it hangs, or should have
        ended.
        """
        self.pause = max(0.0, self.pause - seconds)
        self._seconds_ready += seconds
        self._seconds_left -= seconds
        if self.process is not None and self._seconds_left <= 0:
            self.process.kill()

    @property
    def memory(self) -> int:
        """Resident memory of the process in bytes; 0 if it has ended."""
        if self.process is None:
            return 0
        try:
            statm = Path(f"/proc/{self.process.pid}/statm").read_text("ascii")
        except OSError:
            return 0
        resident_pages = int(statm.split()[1])
        return resident_pages * os.sysconf("SC_PAGE_SIZE")

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with suppress(OSError), process:  # leaving it closes the pipes and waits
            for line in process.stdout:
                try:
                    message = json.loads(line)
                except ValueError:
                    # The process died in the middle of a line, or a library printed this one.
                    continue
                if isinstance(message, dict) and message:
                    self._events.put((self, message))
        self._events.put((self, {}))


def _share(listener: socket.socket, pid: int) -> int | str:
    """Return the handle of a socket for the process `pid`, as JSON."""
    if sys.platform == "win32":
        return base64.b64encode(listener.share(pid)).decode()
    return listener.fileno()


def shared_socket(shared: Any) -> socket.socket:
    """Return the socket of the supervisor's handle, in the child process."""
    if sys.platform == "win32":
        return socket.fromshare(base64.b64decode(shared))
    return socket.socket(fileno=shared)


def status_pipe() -> Callable[..., None]:
    """Take standard output as the pipe to the supervisor, and redirect prints to standard error.

    Returns a function that sends a message from any thread, such as `report(beat=1)`.
    """
    output = os.fdopen(os.dup(1), "wb")
    lock = threading.Lock()
    os.dup2(2, 1)

    def report(**message: Any) -> None:
        # If the supervisor has ended, the end of standard input says so as well.
        with lock, suppress(OSError):
            output.write(json.dumps(message).encode() + b"\n")
            output.flush()

    return report
