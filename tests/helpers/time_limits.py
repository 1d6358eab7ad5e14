"""Limits that only a fault exceeds, however busy the machine: of processor time, and of waiting for
something.

They are the only clocks of tests (`test_no_chance.py` sees to that), and a minute is the least of
them. A test of linear time takes an input so large that linear time is a second and quadratic time
many minutes.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

LEAST = 60
"""Fewest seconds of a limit."""
T = TypeVar("T")


def _check(seconds: float) -> None:
    if seconds < LEAST:
        raise ValueError(
            f"a limit of {seconds} seconds: wanted at least {LEAST}, as machines may be busy"
        )


@contextmanager
def time_limit(seconds: float = LEAST) -> Iterator[None]:
    """Fail a test that takes more than so much time of the processor; only where there is a timer
    of it.

    Code that runs in C until its end, such as a call of the runtime, fails after it.
    """
    _check(seconds)
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    sentence = f"it took more than {seconds} seconds of processor time"
    is_over = list[bool]()

    def fail(*_: Any) -> None:
        is_over.append(True)
        pytest.fail(sentence)

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
        if is_over:  # what was raised in a callback of C is lost
            pytest.fail(sentence)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def wait_until(condition: Callable[[], T], what: str, seconds: float = LEAST) -> T:
    """Wait until a condition holds; return its value, or fail if `what` should come to pass has not
    within a limit.
    """
    _check(seconds)
    limit = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > limit:
            pytest.fail(f"not within {seconds} seconds: {what}")
        time.sleep(0.01)
    return value


async def wait_until_async(
    condition: Callable[[], T], what: str, seconds: float = LEAST
) -> T:
    """Wait as `wait_until` does, while other tasks go on."""
    _check(seconds)
    limit = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > limit:
            pytest.fail(f"not within {seconds} seconds: {what}")
        await asyncio.sleep(0.01)
    return value


def seeds(
    holds: Callable[[], bool], what: str, least: int = 1, most: int = 20
) -> Iterator[int]:
    """Yield one seed after the other, `least` of them or more, until a premise holds of what was
    drawn with them.

    A law whose premise fails for a draw takes the next seed; it fails, and names their number, if
    none is enough.
    """
    for seed in range(most):
        yield seed
        if seed + 1 >= least and holds():
            return
    pytest.fail(f"{most} seeds are not enough: {what}")
