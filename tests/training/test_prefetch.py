"""Prefetching changes only when items are made: the same items in order, and errors in their places."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from regard.training.prefetch import Prefetcher

TIMEOUT = 10.0


def threads() -> int:
    """The number of prefetching threads."""
    return sum(thread.name == "prefetch" for thread in threading.enumerate())


class Made(Iterator[int]):
    """Counts without end, and knows how far it is."""

    def __init__(self) -> None:
        self.count, self._counted = 0, threading.Condition()

    def __next__(self) -> int:
        with self._counted:
            self.count += 1
            self._counted.notify_all()
            return self.count - 1

    def comes_to(self, count: int, within: float = TIMEOUT) -> bool:
        """Return whether so many are made in time."""
        with self._counted:
            return self._counted.wait_for(lambda: self.count >= count, within)


class Broken(Exception):
    """Raised while an item is made."""


def broken(after: int) -> Iterator[int]:
    yield from range(after)
    raise Broken(f"after {after}")


@pytest.mark.parametrize("depth", [1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_every_item_comes_once_and_in_order(count: int, depth: int) -> None:
    with Prefetcher(range(count), depth) as stream:
        assert list(stream) == list(range(count))


def test_items_may_be_nothing_or_anything() -> None:
    items = [None, 0, "", [], Broken("not raised")]
    with Prefetcher(items) as stream:
        assert list(stream) == items


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_never_more_items_are_made_ahead_than_depth_and_one(depth: int) -> None:
    """`depth` of them wait, and one more is at hand until there is room for it."""
    made = Made()
    with Prefetcher(made, depth) as stream:
        for taken in range(20):
            assert made.comes_to(taken + depth + 1)
            assert not made.comes_to(taken + depth + 2, within=0.002)
            assert next(stream) == taken


def test_nothing_is_made_before_the_block() -> None:
    made = Made()
    stream = Prefetcher(made)
    assert not made.comes_to(1, within=0.01)
    with stream:
        assert next(stream) == 0


def test_items_are_made_by_a_thread_of_their_own() -> None:
    with Prefetcher(threading.get_ident() for _ in range(3)) as stream:
        makers = set(stream)
    assert len(makers) == 1
    assert threading.get_ident() not in makers


@pytest.mark.parametrize("after", [0, 1, 5])
def test_an_error_comes_where_its_item_would(after: int) -> None:
    with Prefetcher(broken(after)) as stream:
        assert [next(stream) for _ in range(after)] == list(range(after))
        with pytest.raises(Broken, match=f"after {after}"):
            next(stream)
    assert threads() == 0


def test_an_error_leaves_the_block_as_itself() -> None:
    with pytest.raises(Broken, match="after 3"), Prefetcher(broken(3)) as stream:
        list(stream)
    assert threads() == 0


def test_the_end_is_told_as_every_iterator_tells_it() -> None:
    with Prefetcher([1]) as stream:
        assert iter(stream) is stream
        assert next(stream) == 1
        with pytest.raises(StopIteration):
            next(stream)


def _asked_again(items: Iterator[int], kind: type[BaseException]) -> list[BaseException]:
    """What is raised by asking for two items more than there are, in a thread that may be left waiting."""
    raised: list[BaseException] = []

    def ask() -> None:
        with Prefetcher(items) as stream:
            for _ in range(2):
                try:
                    next(stream)
                except kind as problem:
                    raised.append(problem)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(0.3)
    return raised


def test_after_the_end_it_is_still_the_end() -> None:
    assert len(_asked_again(iter(()), StopIteration)) == 2


def test_leaving_the_block_ends_the_thread() -> None:
    with Prefetcher([1, 2]) as stream:
        list(stream)
    assert threads() == 0


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("taken", [0, 1, 6])
def test_leaving_the_block_ends_the_thread_when_the_queue_is_full(depth: int, taken: int) -> None:
    made = Made()
    with Prefetcher(made, depth) as stream:
        for _ in range(taken):
            next(stream)
        assert made.comes_to(taken + depth + 1)
    assert threads() == 0
    assert made.count <= taken + depth + 2, "at most one more was begun while the block was left"


def test_leaving_the_block_by_an_error_ends_the_thread() -> None:
    with pytest.raises(KeyError), Prefetcher(Made()):
        raise KeyError
    assert threads() == 0


def test_leaving_the_block_waits_for_the_item_at_hand() -> None:
    """Nothing is read from the items after the block: whoever closes a file after it closes it in peace."""
    begun, finished, never = threading.Event(), threading.Event(), threading.Event()

    def slow() -> Iterator[int]:
        begun.set()
        never.wait(0.05)
        finished.set()
        yield 1

    with Prefetcher(slow()):
        assert begun.wait(TIMEOUT)
    assert finished.is_set()
    assert threads() == 0


def test_two_streams_do_not_meet() -> None:
    with Prefetcher(range(50)) as one, Prefetcher(range(50, 100)) as other:
        assert list(zip(one, other, strict=True)) == [(n, n + 50) for n in range(50)]
