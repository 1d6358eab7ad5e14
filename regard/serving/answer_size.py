"""Sizes of answers, estimated before the work: attention, further hypotheses and the search outgrow
any text.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from regard.common.errors import UsageError
from regard.common.stopping import PATIENCE, STOP_EVENT, check_stop

_TOKEN, _CANDIDATE, _ID = 40, 120, 8
"""Bytes of a token with its log-probability, of a candidate of the search, and of an id in JSON,
about.
"""
_CANDIDATES = 9
"""Candidates of each open hypothesis that a trace has, about."""


class AnswerLimit:
    """The most bytes of an answer of a model, and of all its answers that are in the making
    together.

    `heads`: of all layers of the model, counted by role.
    """

    def __init__(self, most: int, heads: Mapping[str, int]) -> None:
        self.most = most
        self.heads = heads
        self._taken = 0
        self._changed = threading.Condition()

    def size(
        self,
        lengths: Iterable[tuple[int, int]],
        nbest: int,
        roles: Iterable[str],
        weight: float = 8,
        traced: int = 0,
    ) -> int:
        """Estimate the bytes of an answer about lines of S source and T target tokens each, given
        as (S, T).

        `weight`: bytes of a weight of attention; `traced`: width of the beam if the search is
        traced, else 0.
        """
        heads = {role: self.heads.get(role, 0) for role in roles}
        size = 0.0
        for s, t in lengths:
            weights = {"encoder": s * s, "cross": s * t, "decoder": t * t}
            size += nbest * (
                t * _TOKEN
                + weight * sum(count * weights[role] for role, count in heads.items())
            )
            size += t * traced * (t / 2 * _ID + _CANDIDATES * _CANDIDATE)
        return int(size)

    def check(self, size: int) -> None:
        """Raise UsageError if an answer is too large."""
        if size > self.most:
            raise UsageError(
                f"the answer would have about {size:,} bytes, and the server's `answer_limit` is "
                f"{self.most:,}; ask for fewer hypotheses (`nbest`), less attention or no trace, "
                "or send less text at once"
            )

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Wait for the room that an answer needs, and hold it for the block. Raises UsageError, and
        Stopped.
        """
        self.check(size)
        stop = STOP_EVENT.get()
        with self._changed:
            while self._taken + size > self.most:
                check_stop(stop)
                self._changed.wait(PATIENCE)
            self._taken += size
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._changed.notify_all()
