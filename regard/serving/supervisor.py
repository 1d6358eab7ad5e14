"""The supervisor of a server, which keeps the listening socket open and the answering processes
running.

It runs in the process of the command and imports only the standard library, so that it stays small
and robust.
"""

from __future__ import annotations

import math
import os
import queue
import secrets
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.common import errors
from regard.common.atomic import lock_folder
from regard.common.errors import UsageError, WorkerError
from regard.common.processes import module_command
from regard.serving.child_process import BEAT_SECONDS, ChildProcess, Events
from regard.serving.crash_table import CallTable

if TYPE_CHECKING:
    from regard.serving.unavailable import Unavailable

CONNECTIONS = 2048
"""Maximum number of connections in the queue of the socket until they are accepted."""
COMMANDS = (
    module_command("regard.serving.serving_process"),
    module_command("regard.serving.pytorch_process"),
)
"""Commands of the serving process, and of the PyTorch process, which starts only if a model needs
it.
"""
_GRACE_SECONDS = 5.0
"""Seconds beyond the deadline of its calls that a process may take to end."""
Say = Callable[[str], None]


def serve(
    configuration: Mapping[str, Any],
    host: str,
    port: int,
    say: Say = print,
    max_memory: int = 0,
    commands: Sequence[Sequence[str]] = COMMANDS,
) -> None:
    """Serve until SIGINT or SIGTERM, which is raised again at the end.

    `max_memory`: most bytes of each process, or 0 for no limit. Raises UsageError for the address,
    and the error of a process that cannot start.
    """
    if max_memory and not Path("/proc/self/statm").exists():
        raise UsageError(
            "`max_memory`: this system does not tell how much memory a process takes"
        )
    events: Events = queue.SimpleQueue()
    with closing(listen(host, port)) as listener, _signals(events):
        supervisor = Supervisor(
            configuration, listener, events, say, max_memory, commands
        )
        number = supervisor.run()
    signal.raise_signal(number)


class Supervisor:
    """Supervises the serving process, and the PyTorch process if a model needs it."""

    clock = staticmethod(time.monotonic)

    def __init__(
        self,
        configuration: Mapping[str, Any],
        listener: socket.socket,
        events: Events,
        say: Say = print,
        max_memory: int = 0,
        commands: Sequence[Sequence[str]] = COMMANDS,
    ) -> None:
        self._configuration = configuration
        self._listener = listener
        self._events = events
        self._say = say
        self._max_memory = max_memory
        self._serving = ChildProcess(
            "the serving process", commands[0], events, listener
        )
        self._pytorch = ChildProcess("the PyTorch process", commands[1], events)
        self._children = [self._serving]
        self._end_seconds = configuration["settings"]["deadline"] + _GRACE_SECONDS
        self._signal = 0
        # Before the server was ready once, an error of a process ends the server.
        self._was_ready = False
        self._unavailable: Unavailable | None = None

    def run(self) -> int:
        """Keep the processes running until a signal comes, and return its number."""
        with (
            tempfile.TemporaryDirectory(prefix="regard-") as folder,
            # Without a lock, systemd removes temporary files after ten days.
            lock_folder(Path(folder)),
        ):
            calls = Path(folder, "calls")
            address = Path(folder, "pytorch")
            if os.name == "nt":
                address = Path(rf"\\.\pipe\{address.parent.name}")
            configuration = {
                **self._configuration,
                "calls": str(calls),
                "pytorch": {
                    "address": str(address),
                    "authkey": secrets.token_hex(32),
                },
                "end_seconds": self._end_seconds,
            }
            self._table = CallTable(calls)
            try:
                while not self._signal or self._serving.process is not None:
                    if not self._signal:
                        self._start(configuration)
                    self._limit_memory()
                    is_away = self._serving.process is None or self._serving.is_stopping
                    self._answer_unavailable(is_away and not self._signal)
                    self._wait()
            finally:
                self._answer_unavailable(False)
                for child in self._children:
                    child.end()
        return self._signal

    def _start(self, configuration: Mapping[str, Any]) -> None:
        """Start the processes that do not run, unless they pause."""
        for child in self._children:
            if child.process is not None or child.pause:
                continue
            if child is self._serving:
                self._answer_unavailable(False)
            try:
                child.start({**configuration, "strict": not self._was_ready})
            except OSError as problem:  # the system lacks resources for a process
                if not self._was_ready:
                    raise
                self._say(f"{child.name} cannot be started again: {problem}")
                child.note_end()

    def _limit_memory(self) -> None:
        """Stop processes that use too much memory; they are replaced."""
        if not self._max_memory:
            return
        for child in self._children:
            is_serving = child.is_ready and not child.is_stopping
            if is_serving and child.memory > self._max_memory:
                self._say(
                    f"{child.name} takes more memory than it may; another takes its place"
                )
                child.stop(self._end_seconds)

    def _wait(self) -> None:
        """Wait for a message or the next start, and kill processes that hang.

        Time in which the supervisor itself was suspended, for instance by Ctrl-Z, is not counted.
        """
        before = self.clock()
        pauses = [
            child.pause
            for child in self._children
            if child.process is None and not self._signal
        ]
        with suppress(queue.Empty):
            self._handle(*self._events.get(timeout=min([BEAT_SECONDS, *pauses])))
        passed = min(self.clock() - before, 2 * BEAT_SECONDS)
        for child in self._children:
            child.advance(passed)

    def _handle(self, child: ChildProcess | None, message: Mapping[str, Any]) -> None:
        """Handle a signal or a message. Raises the error of a process that cannot start."""
        if child is None:
            self._handle_signal(message["signal"])
            return
        if not message:
            self._handle_end(child)
        if "say" in message:
            self._say(message["say"])
        if "error" in message:
            kind, *causes = message["error"]
            if not self._was_ready:
                raise errors.rebuild(getattr(errors, kind), tuple(causes))
            self._say(f"{child.name} cannot be started again: {'; '.join(causes)}")
        if "pytorch" in message and self._pytorch not in self._children:
            self._children.append(self._pytorch)
        if "ready" in message and child is self._serving and not self._was_ready:
            self._was_ready = True
            address, port = self._listener.getsockname()[:2]
            name = f"[{address}]" if ":" in address else address
            self._say(f"listening at http://{name}:{port} (stop with Ctrl-C)")
        child.note(message)

    def _handle_end(self, child: ChildProcess) -> None:
        """Record the end of a process. Raises WorkerError if the server has never been ready."""
        is_death = not child.is_stopping
        if child is self._serving:
            self._table.note_end(is_death)
        status = child.note_end()
        if is_death and not self._signal:
            if not self._was_ready:
                raise WorkerError(
                    f"{child.name} ended with status {status} before the server was ready"
                )
            self._say(
                f"{child.name} has ended with status {status}; another is started"
            )

    def _handle_signal(self, number: int) -> None:
        """Reload changed models at SIGHUP; at another signal finish open calls and end, and at a
        second one end at once.
        """
        if number == getattr(signal, "SIGHUP", None):
            self._serving.tell("reload")
            return
        self._answer_unavailable(False)
        self._listener.close()
        if self._signal or not self._serving.is_ready:
            self._serving.end()
        else:
            self._serving.stop(self._end_seconds)
        self._signal = self._signal or number

    def _answer_unavailable(self, is_wanted: bool) -> None:
        """Start or stop to answer 503 in the place of the serving process."""
        if is_wanted and self._unavailable is None:
            # Imported late, since many servers never need it.
            from regard.serving.unavailable import Unavailable

            self._unavailable = Unavailable(
                self._listener, lambda: max(1, math.ceil(self._serving.pause))
            )
        elif not is_wanted and self._unavailable is not None:
            self._unavailable.stop()
            self._unavailable = None


@contextmanager
def _signals(events: Events) -> Iterator[None]:
    """Add signals to the events while the block runs."""

    def add_event(number: int, _: Any) -> None:
        events.put((None, {"signal": number}))

    numbers = [
        getattr(signal, name)
        for name in ("SIGINT", "SIGTERM", "SIGHUP")
        if hasattr(signal, name)
    ]
    old_handlers = {number: signal.signal(number, add_event) for number in numbers}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """Return a non-blocking socket that listens at an address. Raises UsageError if that fails."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as problem:
        raise UsageError(
            f"--host {host}: not an address of this machine ({problem.strerror or problem})"
        ) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(CONNECTIONS)
    except OSError as problem:
        listener.close()
        raise UsageError(
            f"{host}:{port}: cannot listen there ({problem.strerror or problem}); choose another "
            "--port"
        ) from None
    listener.setblocking(False)
    return listener
