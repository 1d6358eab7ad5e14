"""Long calls that are given up from another thread: the caller names an event, and what is slow
looks at it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

STOP_EVENT: ContextVar[threading.Event | None] = ContextVar("stop_event", default=None)
"""The event that gives up the call of this thread; None: nobody can."""
PATIENCE = 0.1
"""Seconds between two looks at the event, and between which a signal may wait."""


class Stopped(Exception):
    """A call was given up by whoever made it."""


@contextmanager
def stopped_by(stop: threading.Event) -> Iterator[None]:
    """Give up the calls that this thread makes in the block, with Stopped, once `stop` is set."""
    token = STOP_EVENT.set(stop)
    try:
        yield
    finally:
        STOP_EVENT.reset(token)


def check_stop(stop: threading.Event | None) -> None:
    """Raise Stopped if an event is set."""
    if stop is not None and stop.is_set():
        raise Stopped
