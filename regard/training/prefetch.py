"""Prefetch: a background thread prepares the next batches, so that training never waits for them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetcher(Generic[T]):
    """Iterator over `items` that prefetches up to `depth` of them in a thread.

    Use it in a `with` block, which ends the thread. An error while an item is made is raised in place of that item.
    """

    def __init__(self, items: Iterable[T], depth: int = 2) -> None:
        self._items = iter(items)
        self._ready: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._end: StopIteration | None = None
        self._thread = threading.Thread(target=self._fetch, name="prefetch", daemon=True)

    def __enter__(self) -> Prefetcher[T]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        while self._thread.is_alive():
            try:
                self._ready.get_nowait()
            except queue.Empty:
                self._thread.join(0.01)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._end is not None:
            raise self._end
        item, problem = self._ready.get()
        if problem is not None:
            self._end = problem if isinstance(problem, StopIteration) else StopIteration()
            raise problem
        return item  # type: ignore[return-value]

    def _fetch(self) -> None:
        while not self._stopped.is_set():
            problem: BaseException | None = None
            item: T | None = None
            try:
                item = next(self._items)
            except BaseException as raised:
                problem = raised
            self._ready.put((item, problem))
            if problem is not None:
                return
