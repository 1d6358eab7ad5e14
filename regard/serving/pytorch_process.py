"""Process of the models that only PyTorch can run.

The serving process never imports PyTorch, and survives its crashes. Each call is a connection
(`multiprocessing.connection`): the caller sends the model folder, the name of a method and its
arguments, and receives the results or an error. A caller cancels a call by closing its connection.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, NamedTuple

from regard.common.errors import RegardError, WorkerError
from regard.common.stopping import PATIENCE, STOP_EVENT, check_stop, stopped_by
from regard.serving.child_process import BEAT_SECONDS, status_pipe


class Folder(NamedTuple):
    """A model folder with the arguments of `open_folder`; `version` grows whenever its files
    change.
    """

    path: Path
    precision: str
    threads: int
    most_bytes: int
    languages: tuple[str, ...]
    version: int = 0


_ATTEMPTS = 1200
"""Attempts to reach the process while it starts, one in a tenth of a second."""
_CALL = "call"
"""Name of the threads that answer calls."""


class ProcessAway(WorkerError):
    """The process of a model cannot be reached."""

    def __init__(self) -> None:
        super().__init__(
            "the process that runs this model is away and is started again; ask once more"
        )


class ProcessDied(WorkerError):
    """The process of a model has died while it answered."""

    def __init__(self) -> None:
        super().__init__(
            "the process that runs this model has ended and is started again; ask once more"
        )


@dataclass(frozen=True)
class RemoteModel:
    """A proxy of a model in the process at `address`, with the methods of a served model.

    Several threads may call it at the same time.
    """

    address: str
    key: bytes
    folder: Folder

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        if method == "stream":
            return lambda *arguments: self._results(method, *arguments)
        return lambda *arguments: next(self._results(method, *arguments))

    def _results(self, method: str, *arguments: Any) -> Iterator[Any]:
        """Make a call, and yield its results.

        Raises the error of the call, Stopped, ProcessAway and ProcessDied.
        """
        stop = STOP_EVENT.get()
        try:
            connection = Client(self.address, authkey=self.key)
        except (OSError, EOFError):
            raise ProcessAway from None
        try:
            with connection:
                connection.send((self.folder, method, arguments))
                while True:
                    while not connection.poll(PATIENCE):
                        check_stop(stop)
                    results, problem = connection.recv()
                    yield from results
                    if problem is not None:
                        raise problem
                    if not results:
                        return
        except (OSError, EOFError):
            raise ProcessDied from None


class PyTorchProcess:
    """The client of the PyTorch process, in the serving process.

    `start`: asks the supervisor to start the PyTorch process, unless it runs.
    """

    def __init__(self, address: str, authkey: str, start: Callable[[], None]) -> None:
        """Create the client; `authkey`: the key that authenticates callers, in hexadecimal."""
        self._address = address
        self._key = bytes.fromhex(authkey)
        self._start = start

    def open(self, folder: Folder) -> RemoteModel:
        """Open a folder in the process, once that has started.

        Raises ModelFolderError, ProcessAway and ProcessDied.
        """
        self._start()
        model = RemoteModel(self._address, self._key, folder)
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(ProcessAway):
                model.about()
                return model
            time.sleep(PATIENCE)
        raise ProcessAway


class _OpenFolders:
    """The open model folders, each in its latest version."""

    def __init__(self) -> None:
        self._open = dict[Folder, tuple[int, Any]]()
        self._opening = dict[Folder, threading.Lock]()

    def get(self, folder: Folder) -> Any:
        """Return the model of a folder, which is opened if this version is new.

        Calls of a new version wait while it is opened; those of older versions do not. Raises
        ModelFolderError.
        """
        key = folder._replace(version=0)
        if self._version(key) < folder.version:
            with self._opening.setdefault(key, threading.Lock()):
                if self._version(key) < folder.version:
                    from regard.serving.pytorch_models import open_folder

                    self._open[key] = (folder.version, open_folder(*folder[:-1]))
        return self._open[key][1]

    def _version(self, key: Folder) -> int:
        return self._open[key][0] if key in self._open else -1


def serve_calls(listener: Listener) -> None:
    """Answer calls, each in a thread of its own, as long as the process lives."""
    folders = _OpenFolders()
    while True:
        try:
            connection = listener.accept()
        except (OSError, EOFError):
            # The caller has disconnected, the system lacks resources, or the listener is closed.
            time.sleep(PATIENCE)
            continue
        threading.Thread(target=_answer, args=(folders, connection), name=_CALL).start()


def _answer(folders: _OpenFolders, connection: Connection) -> None:
    stop = threading.Event()
    with connection, contextlib.suppress(OSError, EOFError), stopped_by(stop):
        folder, method, arguments = connection.recv()
        threading.Thread(target=_watch, args=(connection, stop), daemon=True).start()
        try:
            result = getattr(folders.get(folder), method)(*arguments)
            for part in result if method == "stream" else [result]:
                connection.send(([part], None))
            connection.send(([], None))
        except RegardError as problem:
            connection.send(([], problem))
        except Exception as problem:  # other calls of the process go on
            connection.send(([], RegardError(f"{type(problem).__name__}: {problem}")))
        finally:
            stop.set()


def _watch(connection: Connection, stop: threading.Event) -> None:
    """Set `stop` once the caller closes the connection, on which it sends nothing else."""
    with contextlib.suppress(OSError):
        while not stop.is_set():
            if connection.poll(PATIENCE):
                stop.set()


def main() -> None:
    """Answer calls until the end of standard input, and then finish the open ones.

    The first line of standard input is the configuration; its `end_seconds` is the time limit for
    finishing open calls.
    """
    report = status_pipe()
    configuration = json.loads(sys.stdin.readline())
    address = configuration["pytorch"]["address"]
    key = bytes.fromhex(configuration["pytorch"]["authkey"])
    # A process that died may have left its socket.
    Path(address).unlink(missing_ok=True)
    with Listener(address, authkey=key) as listener:
        threading.Thread(target=serve_calls, args=(listener,), daemon=True).start()
        threading.Thread(target=_beat, args=(report,), daemon=True).start()
        report(ready=True)
        sys.stdin.read()

    limit = time.monotonic() + configuration["end_seconds"]
    for thread in threading.enumerate():
        if thread.name == _CALL:
            thread.join(max(0.0, limit - time.monotonic()))
    os._exit(0)  # a normal exit would wait for threads whose results nobody needs


def _beat(report: Callable[..., None]) -> None:
    """Send a heartbeat every second, as long as no thread holds the interpreter lock."""
    while True:
        report(beat=True)
        time.sleep(BEAT_SECONDS)
