"""Prefetch: a background thread prepares the next batches, so that training need not wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetcher(Generic[T]):
    """Iterator over `items` that prefetches `depth` + 1 of them in a thread.

    Use it in a `with` block, which ends the thread. If the making of an item fails, its error is
    raised when the item is requested.
    """

    def __init__(self, items: Iterable[T], depth: int = 2) -> None:
        self._items = iter(items)
        self._depth = depth
        self._thread = ThreadPoolExecutor(1, "prefetch")
        self._next = deque[Future[T]]()

    def __enter__(self) -> Prefetcher[T]:
        self._next.extend(
            self._thread.submit(next, self._items) for _ in range(self._depth + 1)
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        future = self._next.popleft()
        self._next.append(self._thread.submit(next, self._items))
        return future.result()
