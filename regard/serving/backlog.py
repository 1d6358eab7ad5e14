"""Admission control: the backlog of a model, and whether a further call would meet its deadline."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator

from regard.serving.service import Overloaded


class Backlog:
    """Lines and characters that wait for one model, and the speed at which it translates.

    The speed, in characters per second, is measured only while the model is busy, because a few
    sentences alone do not fill its batches. Until it is known, every call is admitted that fits.
    """

    BUSY = 16
    """Waiting lines with which the model counts as busy."""

    def __init__(self, most_lines: int) -> None:
        self.most_lines = most_lines
        self.calls = 0
        self.lines = 0
        self.characters = 0
        self.speed = 0.0
        self._done = 0
        self._busy_since = 0.0

    def admit(self, lines: int, characters: int, deadline: float) -> None:
        """Raise Overloaded if the backlog is full, or if a call would miss its deadline.

        The error says after how many seconds another attempt may succeed. `deadline`: seconds from
        now.
        """
        # Open calls take turns, so each delays this one by no more than its own length.
        ahead = min(self.characters, characters * self.calls)
        wait = (ahead + characters) / self.speed if self.speed else 0.0
        excess = self.lines + lines - self.most_lines
        if self.lines and (excess > 0 or wait > deadline):
            until_room = wait * excess / (self.lines + lines) if self.speed else 1.0
            seconds = math.ceil(max(until_room, wait - deadline))
            raise Overloaded(min(60, max(1, seconds)))

    @contextlib.contextmanager
    def holding(self, lines: int, characters: int) -> Iterator[None]:
        """Count a call in the backlog while the block runs."""
        # A single call that exceeds the limit is admitted; it must not block all others.
        lines = min(lines, self.most_lines // 2)
        self.calls += 1
        self.lines += lines
        self.characters += characters
        try:
            yield
            self._update_speed(characters)
        finally:
            self.calls -= 1
            self.lines -= lines
            self.characters -= characters

    def _update_speed(self, characters: int) -> None:
        """Update the speed, an exponential moving average over intervals of at least two busy
        seconds.
        """
        now = time.monotonic()
        if self.lines < self.BUSY or not self._busy_since:
            self._done = 0
            self._busy_since = now if self.lines >= self.BUSY else 0.0
            return
        self._done += characters
        if now - self._busy_since > 2:
            speed = self._done / (now - self._busy_since)
            self.speed = 0.7 * self.speed + 0.3 * speed if self.speed else speed
            self._done = 0
            self._busy_since = now
