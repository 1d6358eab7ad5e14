"""Prefetching: the same items in the same order, and errors at the positions of their items."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from regard.training.prefetch import Prefetcher

TIMEOUT = 10.0


def threads() -> int:
    """Count the prefetching threads."""
    return sum(thread.name.startswith("prefetch") for thread in threading.enumerate())


class Counter(Iterator[int]):
    """Endless iterator that counts the items it made."""

    def __init__(self) -> None:
        self.count = 0
        self._counted = threading.Condition()

    def __next__(self) -> int:
        with self._counted:
            self.count += 1
            self._counted.notify_all()
            return self.count - 1

    def reaches(self, count: int, within: float = TIMEOUT) -> bool:
        """Return whether that many items are made in time."""
        with self._counted:
            return self._counted.wait_for(lambda: self.count >= count, within)


def failing(after: int) -> Iterator[int]:
    yield from range(after)
    raise KeyError(after)


@pytest.mark.parametrize("depth", [1, 7])
@pytest.mark.parametrize(
    "items", [[], [None], [None, 0, "", [], KeyError("not raised")] * 40]
)
def test_every_item_comes_once_and_in_order(items: list[Any], depth: int) -> None:
    with Prefetcher(items, depth) as stream:
        assert iter(stream) is stream
        assert list(stream) == items
    assert threads() == 0


@pytest.mark.parametrize("depth", [1, 5])
def test_at_most_depth_plus_one_items_are_prefetched(depth: int) -> None:
    """`depth` items wait in the queue, and one more waits for room in it."""
    items = Counter()
    with Prefetcher(items, depth) as stream:
        for taken in range(10):
            assert items.reaches(taken + depth + 1)
            assert not items.reaches(taken + depth + 2, within=0.002)
            assert next(stream) == taken

    assert threads() == 0
    assert items.count <= 10 + depth + 2, "at most one more item is begun at the end"


def test_items_are_made_in_the_block_by_a_thread_of_their_own() -> None:
    items = Counter()
    stream = Prefetcher((items.__next__(), threading.get_ident()) for _ in range(3))

    assert not items.reaches(1, within=0.01)

    with stream:
        makers = {thread for _, thread in stream}

    assert len(makers) == 1
    assert threading.get_ident() not in makers


@pytest.mark.parametrize("after", [0, 5])
def test_an_error_is_raised_at_the_position_of_its_item(after: int) -> None:
    taken: list[int] = []
    with (
        pytest.raises(KeyError, match=str(after)),
        Prefetcher(failing(after)) as stream,
    ):
        taken.extend(stream)

    assert taken == list(range(after))
    assert threads() == 0


def test_asking_again_after_the_end_raises_stop_iteration_again() -> None:
    """In a thread, as it may block."""

    def ask_twice() -> list[int | None]:
        with Prefetcher([1]) as stream:
            return [next(stream), next(stream, None), next(stream, None)]

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(ask_twice).result(TIMEOUT) == [1, None, None]


def test_leaving_the_block_waits_for_the_current_item() -> None:
    """Nothing is read from the items after the block, so that a file behind them can be closed."""
    begun = threading.Event()
    finished = threading.Event()
    never = threading.Event()

    def slow() -> Iterator[int]:
        begun.set()
        never.wait(0.05)
        finished.set()
        yield 1

    with Prefetcher(slow()):
        assert begun.wait(TIMEOUT)

    assert finished.is_set()
