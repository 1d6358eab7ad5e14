"""Width of the screen that figures are drawn for: on a phone some are arranged in one column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_WIDTH: ContextVar[float] = ContextVar("width", default=0.0)


@contextmanager
def figures_within(width: float) -> Iterator[None]:
    """Draw the figures of the block for a small screen of so many pixels, or for any if it is 0."""
    token = _WIDTH.set(width)
    try:
        yield
    finally:
        _WIDTH.reset(token)


def screen_width() -> float:
    """Return the width of the small screen that figures are drawn for, or 0."""
    return _WIDTH.get()
