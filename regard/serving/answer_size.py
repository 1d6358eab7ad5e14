"""Sizes of answers, estimated before the work: attention, further hypotheses and the search outgrow any text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from regard.common.errors import UsageError

_TOKEN, _CANDIDATE, _ID = 40, 120, 8
"""Bytes of a token with its log-probability, of a candidate of the search, and of an id in JSON, about."""
_CANDIDATES = 9
"""Candidates of each open hypothesis that a trace has, about."""


@dataclass(frozen=True)
class AnswerLimit:
    """The most bytes of an answer of a model, whose heads of all layers are counted by role."""

    most: int
    heads: Mapping[str, int]

    def size(
        self, lengths: Iterable[tuple[int, int]], nbest: int, roles: Iterable[str], weight: float = 8, traced: int = 0
    ) -> int:
        """Return the bytes of lines by their tokens, (S, T) each. `weight`: bytes of one; `traced`: beam, if it is."""
        heads, size = {role: self.heads.get(role, 0) for role in roles}, 0.0
        for s, t in lengths:
            weights = {"encoder": s * s, "cross": s * t, "decoder": t * t}
            size += nbest * (t * _TOKEN + weight * sum(count * weights[role] for role, count in heads.items()))
            size += t * traced * (t / 2 * _ID + _CANDIDATES * _CANDIDATE)
        return int(size)

    def check(self, size: int) -> None:
        """Raise UsageError if an answer is too large."""
        if size > self.most:
            raise UsageError(
                f"the answer would have about {size:,} bytes, and the server's `answer_limit` is {self.most:,}; ask "
                "for fewer hypotheses (`nbest`), less attention or no trace, or send less text at once"
            )


class Turns:
    """Begins calls in their order, `at_once` at a time, as soon as all open ones' answers have at most `most` bytes."""

    def __init__(self, most: int, at_once: int, fail: Callable[[int, Exception], None]) -> None:
        self._most, self._at_once, self._fail, self._lock = most, at_once, fail, threading.Lock()
        self._open, self._waiting = dict[int, int](), dict[int, tuple[int, Callable[[], None]]]()

    def begin(self, number: int, size: int, work: Callable[[], None]) -> None:
        """Begin a call, now or in its turn."""
        with self._lock:
            self._waiting[number] = (size, work)
        self._begin_next()

    def end(self, number: int) -> None:
        """Note that a call is done or given up."""
        with self._lock:
            is_known = self._open.pop(number, None) or self._waiting.pop(number, None)
        if is_known:
            self._begin_next()

    def _begin_next(self) -> None:
        while True:
            with self._lock:
                number, (size, work) = next(iter(self._waiting.items()), (0, (0, None)))
                if work is None or len(self._open) >= self._at_once:
                    return
                if self._open and sum(self._open.values()) + size > self._most:
                    return
                del self._waiting[number]
                self._open[number] = size
            try:
                work()
            except Exception as problem:  # of this call alone
                self._fail(number, problem)
                with self._lock:
                    self._open.pop(number, None)
