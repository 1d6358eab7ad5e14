"""Process of the models that only PyTorch can run: the serving process never imports it, nor ends
with its errors.

A call is a connection (`multiprocessing.connection`): the caller sends what is to be done with
which model, and gets the results, or an error. A caller that closes the connection gives the call
up.
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
    """A model folder as it is to be opened; `version` grows with its changes. The arguments of
    `open_folder`.
    """

    path: Path
    precision: str
    threads: int
    most_bytes: int
    languages: tuple[str, ...]
    version: int = 0


_TRIES = 1200
"""Tries to reach the process while it starts, of a tenth of a second each."""
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
    """A model in the process at `address`, with the methods of a served model. Any number of
    threads may call it.
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
        """Make a call, and yield its results. Raises its error, Stopped, ProcessAway, and
        ProcessDied.
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
    """The PyTorch process as the serving process sees it; `start` asks the supervisor for it, any
    number of times.
    """

    def __init__(self, address: str, authkey: str, start: Callable[[], None]) -> None:
        """`authkey`: hexadecimal digits of the key without which nobody may call."""
        self._address = address
        self._key = bytes.fromhex(authkey)
        self._start = start

    def open(self, folder: Folder) -> RemoteModel:
        """Open a folder there, once the process has started. Raises ModelFolderError, ProcessAway,
        ProcessDied.
        """
        self._start()
        model = RemoteModel(self._address, self._key, folder)
        for _ in range(_TRIES):
            with contextlib.suppress(ProcessAway):
                model.about()
                return model
            time.sleep(PATIENCE)
        raise ProcessAway


class _OpenFolders:
    """The folders that are open, each in its latest version."""

    def __init__(self) -> None:
        self._open = dict[Folder, tuple[int, Any]]()
        self._opening = dict[Folder, threading.Lock]()

    def get(self, folder: Folder) -> Any:
        """Return the model of a folder, opened. Raises ModelFolderError.

        Only the first calls of a version wait while it is opened.
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
    """Answer calls, each in a thread of its own, until the listener is closed."""
    folders = _OpenFolders()
    while True:
        try:
            connection = listener.accept()
        except (OSError, EOFError):
            # Of a caller who has gone, or of the system, or it is closed.
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
        except Exception as problem:  # the calls of others go on
            connection.send(([], RegardError(f"{type(problem).__name__}: {problem}")))
        finally:
            stop.set()


def _watch(connection: Connection, stop: threading.Event) -> None:
    """Give a call up if its caller has gone: nothing else comes from there."""
    with contextlib.suppress(OSError):
        while not stop.is_set():
            if connection.poll(PATIENCE):
                stop.set()


def main() -> None:
    """Answer calls until standard input ends, whose first line is the configuration; then finish
    those that are open.

    `end_seconds` of the configuration: in which they have to be done.
    """
    report = status_pipe()
    configuration = json.loads(sys.stdin.readline())
    address = configuration["pytorch"]["address"]
    key = bytes.fromhex(configuration["pytorch"]["authkey"])
    Path(address).unlink(missing_ok=True)  # of a process that has died
    with Listener(address, authkey=key) as listener:
        threading.Thread(target=serve_calls, args=(listener,), daemon=True).start()
        threading.Thread(target=_beat, args=(report,), daemon=True).start()
        report(ready=True)
        sys.stdin.read()
    limit = time.monotonic() + configuration["end_seconds"]
    for thread in threading.enumerate():
        if thread.name == _CALL:
            thread.join(max(0.0, limit - time.monotonic()))
    os._exit(0)  # threads may be in the middle of a sentence that nobody waits for


def _beat(report: Callable[..., None]) -> None:
    """Say once a second that Python is not held up."""
    while True:
        report(beat=True)
        time.sleep(BEAT_SECONDS)
