"""The thread that owns a model: it decodes the calls of all other threads together."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

from regard.common.errors import RegardError
from regard.common.processes import forget_threads_after_fork
from regard.runtime.engine.continuous_batching import INTERRUPTED, DecodeCall, Scheduler
from regard.search import DecodingModel


class DecodingThread:
    """Decodes calls of any number of threads, between whose steps new ones enter.

    As long as the same thread makes all calls, it steps them itself: nothing is started, and what
    belongs to a thread, such as a profiler, sees its decoding. From the first call of a second
    thread on, one thread steps all of them, since each that runs PyTorch would start a team of
    OpenMP of its own.
    """

    def __init__(self, model: DecodingModel) -> None:
        self._model = model
        self.forget_threads()
        forget_threads_after_fork(self)

    def forget_threads(self) -> None:
        """Begin anew, as before any call."""
        self._scheduler = Scheduler(self._model)
        self._starting = threading.Lock()
        self._stepping = threading.Lock()
        self._caller: int | None = None
        self._is_shared = False
        self._worker: _Worker | None = None

    def run(self, call: DecodeCall) -> Iterator[tuple[int, ...]]:
        """Decode a call, together with others; yield what it streams. Raises its error."""
        self._start_worker()  # before others can step the call in this thread's stead
        self._scheduler.add(call)
        return call.follow(partial(self._advance, call))

    def step(self) -> bool:
        """Step the calls of all threads, in the worker; return whether there are any."""
        with self._stepping:
            return self._scheduler.step(sets_threads=True)

    def _advance(self, call: DecodeCall) -> None:
        """Step until the call has an event, or leave that to the worker."""
        while call.events.empty():
            call.check_stop()
            worker = self._start_worker()
            if worker is not None:
                worker.work.put(self)
                return
            with self._stepping:
                if not self._is_shared and not self._scheduler.step():
                    raise RegardError(INTERRUPTED)

    def _start_worker(self) -> _Worker | None:
        """Return the thread that steps; None while this is the only thread that has made calls.

        When a second thread makes its first call, the other lets go after its step, and both wait
        for the worker.
        """
        with self._starting:
            if self._worker is not None and self._worker.is_stopped:  # the program ends
                self.forget_threads()
            if not self._is_shared and self._caller in (None, threading.get_ident()):
                self._caller = threading.get_ident()
                return None
            if self._worker is None:
                worker = _Worker.started(self)
                self._is_shared = True
                with self._stepping:
                    self._worker = worker
            return self._worker


class _Worker(threading.Thread):
    """Steps the calls of one model. While there are none, it does not keep the model alive."""

    def __init__(self) -> None:
        super().__init__(name="regard-decoding", daemon=True)
        self.work: SimpleQueue[DecodingThread | None] = SimpleQueue()
        self.is_stopped = False

    @classmethod
    def started(cls, owner: DecodingThread) -> _Worker:
        """Start a worker that ends when its owner is freed or the program ends."""
        worker = cls()
        worker.start()
        weakref.finalize(owner, worker.work.put, None).atexit = False
        _WORKERS.add(worker)
        return worker

    def run(self) -> None:
        for owner in iter(self.work.get, None):
            with suppress(BaseException):  # its callers raise what it was
                while not self.is_stopped and owner.step():
                    pass
            del owner


_WORKERS: weakref.WeakSet[_Worker] = weakref.WeakSet()


@atexit.register
def _stop_workers() -> None:
    """Wait for the last step of each worker: PyTorch aborts the process if it ends while a daemon
    computes.
    """
    for worker in [*_WORKERS]:
        worker.is_stopped = True
        worker.work.put(None)
        worker.join()
