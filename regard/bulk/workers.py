"""Several processes translate chunks side by side; they share the weights, and results come in the order of lines."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from regard.bulk.chunk_translator import ChunkResult, ChunkTranslator
from regard.bulk.chunks import Chunk
from regard.errors import RegardError, WorkerError
from regard.pipeline import Translator

__all__ = ["InProcess", "Workers"]

AHEAD = 2
"""So many chunks for each worker may be under way or wait for their turn to be written."""


class InProcess:
    """This process does the work; it is used as `Workers` are."""

    def __init__(self, work: ChunkTranslator, make: Callable[[], Translator]) -> None:
        self._work, self._translator = work, make()

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to end."""

    def results(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Each chunk with its results, in order."""
        return ((chunk, self._work(self._translator, chunk)) for chunk in chunks)


class Workers:
    """Processes that each translate one chunk at a time. Use it in a `with` block: leaving it ends them.

    On Linux they are copies of this process, made after `make` was called here: the weights are there once. Until then
    this process must have computed with one thread only, since a copy has none of the others. Elsewhere each worker
    calls `make`.
    """

    def __init__(self, work: ChunkTranslator, make: Callable[[], Translator], count: int, threads: int) -> None:
        self._work, self._make, self._count, self._threads = work, make, count, threads
        self._processes: dict[Connection, BaseProcess] = {}

    def __enter__(self) -> Workers:
        copies = sys.platform == "linux"
        context: Any = multiprocessing.get_context("fork" if copies else "spawn")
        make = _Made(self._make()) if copies else self._make
        for number in range(1, self._count + 1):
            ours, theirs = context.Pipe()
            # A copy has our ends of the pipes too. Only when it has closed them does it notice that we are gone.
            inherited = [*self._processes, ours] if copies else []
            task = (theirs, inherited, make, self._work, self._threads)
            process = context.Process(target=_serve, args=task, name=f"worker {number}", daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of copying with threads: ours are idle
                process.start()
            theirs.close()
            self._processes[ours] = process
        return self

    def __exit__(self, *_: object) -> None:
        for connection, process in self._processes.items():
            connection.close()
            process.terminate()
        for process in self._processes.values():
            process.join()

    def results(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Each chunk with its results, in order. Raises WorkerError when a process dies, and what happens in one."""
        stream = _Stream(chunks)
        idle, busy = [*self._processes], dict[Connection, Chunk]()
        order, done = deque[Chunk](), dict[int, ChunkResult]()
        while True:
            while idle and len(order) < AHEAD * self._count and (chunk := stream.next()):
                self._hand(idle[-1], chunk)
                busy[idle.pop()] = chunk
                order.append(chunk)
            if not order:
                return stream.end()
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection), "what was waited for comes back"
                chunk = busy[connection]
                done[chunk.number] = self._taken(connection, chunk)
                del busy[connection]
                idle.append(connection)
            while order and order[0].number in done:
                chunk = order.popleft()
                yield chunk, done.pop(chunk.number)

    def _hand(self, connection: Connection, chunk: Chunk) -> None:
        try:
            connection.send(chunk)
        except OSError:
            raise self._death(connection, chunk) from None

    def _taken(self, connection: Connection, chunk: Chunk) -> ChunkResult:
        try:
            answer = connection.recv()
        except (EOFError, OSError):
            raise self._death(connection, chunk) from None
        if isinstance(answer, ChunkResult):
            return answer
        problem, where = answer
        raise problem from _InWorker(where)

    def _death(self, connection: Connection, chunk: Chunk) -> WorkerError:
        process = self._processes[connection]
        process.join()
        code = process.exitcode or 0
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        memory = "; if nobody did that, memory ran out: take fewer workers" if code == -9 else ""
        return WorkerError(
            f"{process.name} (process {process.pid}) {how} at lines {chunk.start:,} to {chunk.end:,}{memory}"
        )


class _Stream:
    """Chunks as they are read. What is wrong with one is told when those before it are done."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._chunks = iter(chunks)
        self._problem: RegardError | None = None

    def next(self) -> Chunk | None:
        try:
            return None if self._problem else next(self._chunks, None)
        except RegardError as problem:
            self._problem = problem
            return None

    def end(self) -> None:
        if self._problem:
            raise self._problem


class _InWorker(Exception):
    """Where in another process an error came from."""


class _Made:
    """A translator that is there already, its weights prepared."""

    def __init__(self, translator: Translator) -> None:
        self._translator = translator
        translator.engine.warm_up()

    def __call__(self) -> Translator:
        return self._translator


def _serve(
    connection: Connection,
    inherited: list[Connection],
    make: Callable[[], Translator],
    work: ChunkTranslator,
    threads: int,
) -> None:
    """The life of a worker: chunks in, results out, until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes, and the first one ends the others
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()
    torch.set_num_threads(threads)
    try:
        translator: Translator | None = None
        while True:
            chunk = connection.recv()
            try:
                translator = translator or make()
                connection.send(work(translator, chunk))
            except Exception as problem:
                told = problem if isinstance(problem, (RegardError, OSError)) else _plain(problem)
                connection.send((told, traceback.format_exc()))
    except (EOFError, ConnectionError):
        return


def _plain(problem: Exception) -> Exception:
    """The same in words: not every exception can be sent from process to process."""
    return RuntimeError(f"{type(problem).__name__}: {problem}")
