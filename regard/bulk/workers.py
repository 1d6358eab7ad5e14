"""Worker processes that translate chunks in parallel: they share the weights, and results keep the order of lines."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from regard.bulk.chunk_translator import ChunkResult, ChunkTranslator
from regard.bulk.lines import Chunk
from regard.errors import RegardError, WorkerError

if TYPE_CHECKING:
    from regard.pipeline import Translator

MAX_PENDING = 2
"""Chunks per worker that may be in translation, or wait for their turn to be written."""


class Workers:
    """Worker processes that each translate one chunk at a time. Use it in a `with` block: leaving it ends them.

    On Linux they are forked after `make` was called here, so that the weights are in memory once. Until then this
    process must have computed with one thread only, since a fork has none of the others. Elsewhere each worker calls
    `make`.
    """

    def __init__(self, translate: ChunkTranslator, make: Callable[[], Translator], count: int, threads: int) -> None:
        self._translate, self._make, self._count, self._threads = translate, make, count, threads
        self._processes: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Workers:
        forks = sys.platform == "linux"
        context: Any = multiprocessing.get_context("fork" if forks else "spawn")
        make = _Loaded(self._make()) if forks else self._make
        for number in range(1, self._count + 1):
            parent_end, worker_end = context.Pipe()
            # A fork inherits the parent's ends of the pipes. It must close them to notice when the parent is gone.
            inherited = [*self._processes, parent_end] if forks else []
            arguments = (worker_end, inherited, make, self._translate, self._threads)
            process = context.Process(target=_serve, args=arguments, name=f"worker {number}", daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: they are idle
                process.start()
            worker_end.close()
            self._processes[parent_end] = process
        return self

    def __exit__(self, *_: object) -> None:
        for connection, process in self._processes.items():
            connection.close()
            process.terminate()
        for process in self._processes.values():
            process.join()

    def results(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Yield each chunk with its result, in order. Raises WorkerError if a worker dies, and what a worker raised."""
        reader = _ChunkReader(chunks)
        idle, busy = [*self._processes], dict[Connection, Chunk]()
        order, done = deque[Chunk](), dict[int, ChunkResult]()
        try:
            while True:
                wants_more = bool(idle) and len(order) < MAX_PENDING * self._count and not reader.ended
                if not busy and not wants_more:
                    return reader.raise_problem()
                for connection in wait([*busy, *([reader.ready] if wants_more else [])]):
                    assert isinstance(connection, Connection), "wait returns the connections it was given"
                    if connection is not reader.ready:
                        done[busy[connection].number] = self._receive(connection, busy[connection])
                        del busy[connection]
                        idle.append(connection)
                    elif (chunk := reader.take()) is not None:
                        self._send(idle[-1], chunk)
                        busy[idle.pop()] = chunk
                        order.append(chunk)
                while order and order[0].number in done:
                    chunk = order.popleft()
                    yield chunk, done.pop(chunk.number)
        finally:
            reader.close()

    def _send(self, connection: Connection, chunk: Chunk) -> None:
        try:
            connection.send(chunk)
        except OSError:
            raise self._death(connection, chunk) from None

    def _receive(self, connection: Connection, chunk: Chunk) -> ChunkResult:
        try:
            answer = connection.recv()
        except (EOFError, OSError):
            raise self._death(connection, chunk) from None
        if isinstance(answer, ChunkResult):
            return answer
        problem, traceback_text = answer
        raise problem from _WorkerTraceback(traceback_text)

    def _death(self, connection: Connection, chunk: Chunk) -> WorkerError:
        process = self._processes[connection]
        process.join()
        code = process.exitcode or 0
        outcome = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        memory = "; unless somebody killed it, memory ran out: use fewer workers" if code == -9 else ""
        return WorkerError(
            f"{process.name} (process {process.pid}) {outcome} at lines {chunk.start:,} to {chunk.end:,}{memory}"
        )


class _ChunkReader:
    """Reads chunks in a thread, one ahead: results are not held up while the lines of a pipe are still to come.

    `ready` can be read when `take` does not block. An error in reading is raised only when the chunks before it are
    done.
    """

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self.ready, self._notify = multiprocessing.Pipe(duplex=False)
        self.ended = False
        self._chunks, self._taken = iter(chunks), threading.Semaphore()
        self._next: Chunk | None = None
        self._problem: BaseException | None = None
        # A daemon: the program need not wait for a pipe that never ends.
        threading.Thread(target=self._read, name="reader of chunks", daemon=True).start()

    def take(self) -> Chunk | None:
        """Return the next chunk; None after the last."""
        self.ready.recv_bytes()
        chunk, self.ended = self._next, self._next is None
        self._taken.release()
        return chunk

    def raise_problem(self) -> None:
        """Raise what prevented reading, if anything did."""
        if self._problem is not None:
            raise self._problem

    def close(self) -> None:
        """Let the thread end as soon as it has read what it waits for."""
        self._notify.close()
        self._taken.release()

    def _read(self) -> None:
        ended = False
        while not ended and self._taken.acquire():
            try:
                self._next = next(self._chunks, None)
            except BaseException as problem:
                self._next, self._problem = None, problem
            ended = self._next is None
            try:
                self._notify.send_bytes(b"1")
            except OSError:  # closed
                return


class _WorkerTraceback(Exception):
    """The traceback of an error in a worker, shown as its cause."""


class _Loaded:
    """Returns a translator that is loaded already, its weights packed for the engine."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        translator.engine.prepare()

    def __call__(self) -> Translator:
        return self._translator


def _serve(
    connection: Connection,
    inherited: list[Connection],
    make: Callable[[], Translator],
    translate: ChunkTranslator,
    threads: int,
) -> None:
    """Run a worker: receive chunks and send results until the parent closes its end of the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for parent_end in inherited:
        parent_end.close()
    import torch

    torch.set_num_threads(threads)
    try:
        translator: Translator | None = None
        while True:
            chunk = connection.recv()
            try:
                translator = translator or make()
                connection.send(translate(translator, chunk))
            except Exception as problem:
                sendable = problem if isinstance(problem, (RegardError, OSError)) else _sendable(problem)
                connection.send((sendable, traceback.format_exc()))
    except (EOFError, ConnectionError):
        return


def _sendable(problem: Exception) -> Exception:
    """Describe an exception in one that can be pickled, as not every exception can."""
    return RuntimeError(f"{type(problem).__name__}: {problem}")
