"""Reading ahead: the next items are made by a thread of their own, so that whoever takes them never waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["Prefetcher"]

T = TypeVar("T")


class Prefetcher(Generic[T]):
    """An iterator over `items` that keeps up to `depth` of them ready. Use it in a `with` block: leaving it ends
    the thread. An error while an item is made is raised where that item would have come.
    """

    def __init__(self, items: Iterable[T], depth: int = 2) -> None:
        self._items = iter(items)
        self._ready: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
        self._over = threading.Event()
        self._end: StopIteration | None = None
        self._thread = threading.Thread(target=self._read, name="reading ahead", daemon=True)

    def __enter__(self) -> Prefetcher[T]:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
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

    def _read(self) -> None:
        while not self._over.is_set():
            try:
                found: tuple[T | None, BaseException | None] = (next(self._items), None)
            except BaseException as problem:
                found = (None, problem)
            self._ready.put(found)
            if found[1] is not None:
                return
