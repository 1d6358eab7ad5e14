"""Stop long calls from another thread: the caller sets an event, which slow code checks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

STOP_EVENT: ContextVar[threading.Event | None] = ContextVar("stop_event", default=None)
"""The event that stops the calls of this thread; None if they cannot be stopped."""
PATIENCE = 0.1
"""Seconds between two checks of the event, and the longest delay of a signal."""


class Stopped(Exception):
    """A call was stopped by its caller."""


@contextmanager
def stopped_by(stop: threading.Event) -> Iterator[None]:
    """Let the calls that this thread makes in the block raise Stopped once `stop` is set."""
    token = STOP_EVENT.set(stop)
    try:
        yield
    finally:
        STOP_EVENT.reset(token)


def check_stop(stop: threading.Event | None) -> None:
    """Raise Stopped if an event is set."""
    if stop is not None and stop.is_set():
        raise Stopped
