"""Prefetching: the same items in the same order, and errors at the positions of their items."""

from __future__ import annotations

import threading
from collections.abc import Iterator

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


class Broken(Exception):
    """Raised while an item is made."""


def failing(after: int) -> Iterator[int]:
    yield from range(after)
    raise Broken(f"after {after}")


@pytest.mark.parametrize("depth", [1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_every_item_comes_once_and_in_order(count: int, depth: int) -> None:
    with Prefetcher(range(count), depth) as stream:
        assert list(stream) == list(range(count))


def test_items_may_be_any_object_and_none() -> None:
    items = [None, 0, "", [], Broken("not raised")]
    with Prefetcher(items) as stream:
        assert list(stream) == items


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_at_most_depth_plus_one_items_are_prefetched(depth: int) -> None:
    """`depth` items wait in the queue, and one more waits for room in it."""
    items = Counter()
    with Prefetcher(items, depth) as stream:
        for taken in range(20):
            assert items.reaches(taken + depth + 1)
            assert not items.reaches(taken + depth + 2, within=0.002)
            assert next(stream) == taken


def test_no_item_is_made_before_the_block_is_entered() -> None:
    items = Counter()
    stream = Prefetcher(items)
    assert not items.reaches(1, within=0.01)
    with stream:
        assert next(stream) == 0


def test_items_are_made_by_a_thread_of_their_own() -> None:
    with Prefetcher(threading.get_ident() for _ in range(3)) as stream:
        thread_ids = set(stream)
    assert len(thread_ids) == 1
    assert threading.get_ident() not in thread_ids


@pytest.mark.parametrize("after", [0, 1, 5])
def test_an_error_is_raised_at_the_position_of_its_item(after: int) -> None:
    with Prefetcher(failing(after)) as stream:
        assert [next(stream) for _ in range(after)] == list(range(after))
        with pytest.raises(Broken, match=f"after {after}"):
            next(stream)
    assert threads() == 0


def test_an_error_leaves_the_block_unchanged() -> None:
    with pytest.raises(Broken, match="after 3"), Prefetcher(failing(3)) as stream:
        list(stream)
    assert threads() == 0


def test_the_end_raises_stop_iteration() -> None:
    with Prefetcher([1]) as stream:
        assert iter(stream) is stream
        assert next(stream) == 1
        with pytest.raises(StopIteration):
            next(stream)


def _ask_twice(items: Iterator[int], exception: type[BaseException]) -> list[BaseException]:
    """Ask for two items past the end, in a thread that may block; return the exceptions raised."""
    raised: list[BaseException] = []

    def ask() -> None:
        with Prefetcher(items) as stream:
            for _ in range(2):
                try:
                    next(stream)
                except exception as error:
                    raised.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(0.3)
    return raised


def test_asking_again_after_the_end_raises_stop_iteration_again() -> None:
    assert len(_ask_twice(iter(()), StopIteration)) == 2


def test_leaving_the_block_ends_the_thread() -> None:
    with Prefetcher([1, 2]) as stream:
        list(stream)
    assert threads() == 0


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("taken", [0, 1, 6])
def test_leaving_the_block_ends_the_thread_when_the_queue_is_full(depth: int, taken: int) -> None:
    items = Counter()
    with Prefetcher(items, depth) as stream:
        for _ in range(taken):
            next(stream)
        assert items.reaches(taken + depth + 1)
    assert threads() == 0
    assert items.count <= taken + depth + 2, (
        "at most one more item is begun while the block is left"
    )


def test_leaving_the_block_by_an_error_ends_the_thread() -> None:
    with pytest.raises(KeyError), Prefetcher(Counter()):
        raise KeyError
    assert threads() == 0


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
    assert threads() == 0


def test_two_streams_are_independent() -> None:
    with Prefetcher(range(50)) as first, Prefetcher(range(50, 100)) as second:
        assert list(zip(first, second, strict=True)) == [(n, n + 50) for n in range(50)]
