"""Backlog of a model: what waits for it, and whether a further call would be done in time."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator

from regard.serving.service import Overloaded


class Backlog:
    """Characters that are waiting for one model, and the speed at which such are translated.

    The speed is measured only while there is enough to do, since a few sentences cannot share
    steps: until then every call is let in that there is room for.
    """

    BUSY = 16
    """Lines from which on the model is believed to be busy."""

    def __init__(self, most_lines: int) -> None:
        self.most_lines = most_lines
        self.calls = 0
        self.lines = 0
        self.characters = 0
        self.speed = 0.0
        self._done = 0
        self._busy_since = 0.0

    def admit(self, lines: int, characters: int, deadline: float) -> None:
        """Raise Overloaded, with the seconds after which there may be room, if a call has none, or
        would be late.
        """
        before = min(self.characters, characters * self.calls)  # open calls take turns
        wait = (before + characters) / self.speed if self.speed else 0.0
        excess = self.lines + lines - self.most_lines
        if self.lines and (excess > 0 or wait > deadline):
            until_room = wait * excess / (self.lines + lines) if self.speed else 1.0
            raise Overloaded(
                min(60, max(1, math.ceil(max(until_room, wait - deadline))))
            )

    @contextlib.contextmanager
    def holding(self, lines: int, characters: int) -> Iterator[None]:
        """Count a call while it is open."""
        # Else one that is let in alone would leave no room to others.
        lines = min(lines, self.most_lines // 2)
        self.calls += 1
        self.lines += lines
        self.characters += characters
        try:
            yield
            self._note(characters)
        finally:
            self.calls -= 1
            self.lines -= lines
            self.characters -= characters

    def _note(self, characters: int) -> None:
        """Measure the speed over a second or more of being busy, and follow its changes slowly."""
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
