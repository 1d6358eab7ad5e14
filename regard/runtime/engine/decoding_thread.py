"""Decode the calls of all threads together, in the one thread that owns the model."""

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
    """Decodes the calls of any number of threads; new calls join between two steps.

    As long as one thread makes all calls, it takes the steps itself: no thread is started, and
    whatever is bound to a thread, such as a profiler, observes the decoding. From the first call of
    a second thread on, a worker takes the steps of all calls, since each thread that runs PyTorch
    would start its own team of OpenMP threads.
    """

    def __init__(self, model: DecodingModel) -> None:
        self._model = model
        self.forget_threads()
        forget_threads_after_fork(self)

    def forget_threads(self) -> None:
        """Reset to the state before any call."""
        self._scheduler = Scheduler(self._model)
        self._starting = threading.Lock()
        self._stepping = threading.Lock()
        self._caller: int | None = None
        self._is_shared = False
        self._worker: _Worker | None = None

    def run(self, call: DecodeCall) -> Iterator[tuple[int, ...]]:
        """Decode a call together with others; yield its streamed prefixes. Raises its error."""
        self._start_worker()  # first, since then another thread could take steps of the call
        self._scheduler.add(call)
        return call.follow(partial(self._advance, call))

    def step(self) -> bool:
        """Take a step of the calls of all threads, in the worker; return whether there are any."""
        with self._stepping:
            return self._scheduler.step(sets_threads=True)

    def _advance(self, call: DecodeCall) -> None:
        """Take steps until the call has an event, or ask the worker to."""
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
        """Return the worker; None as long as only this thread has made calls.

        When a second thread makes its first call, the first thread stops after its current step,
        and both wait for the worker.
        """
        with self._starting:
            # The worker is stopped only when the program ends.
            if self._worker is not None and self._worker.is_stopped:
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
    """Thread that decodes the calls of one model. It holds no reference to an idle model."""

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
            # The error is raised in the threads of the callers.
            with suppress(BaseException):
                while not self.is_stopped and owner.step():
                    pass
            del owner


_WORKERS: weakref.WeakSet[_Worker] = weakref.WeakSet()


@atexit.register
def _stop_workers() -> None:
    """Wait for the last step of each worker.

    PyTorch aborts the process if it ends while a daemon thread computes.
    """
    for worker in [*_WORKERS]:
        worker.is_stopped = True
        worker.work.put(None)
        worker.join()
