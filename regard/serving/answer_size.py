"""Estimate the size of an answer before the work begins.

Attention weights, n-best lists and search traces can be far larger than the text itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from regard.common.errors import UsageError
from regard.common.stopping import PATIENCE, STOP_EVENT, check_stop

_TOKEN_BYTES = 40
"""Approximate size in JSON of a token with its log-probability."""
_CANDIDATE_BYTES = 120
"""Approximate size in JSON of one candidate in a search trace."""
_ID_BYTES = 8
"""Approximate size in JSON of a token id."""
_CANDIDATES = 9
"""Approximate number of candidates that a search trace records for each open hypothesis."""


class AnswerLimit:
    """Limit on the bytes of one answer of a model, and of all its unfinished answers together.

    `heads`: number of attention heads of each role, summed over the layers of the model.
    """

    def __init__(self, max_bytes: int, heads: Mapping[str, int]) -> None:
        self.max_bytes = max_bytes
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
        """Estimate the bytes of an answer from `lengths`, the pair (S, T) of each line: its source
        and target tokens.

        `weight`: bytes of one attention weight; `traced`: beam width if the search is traced, else
        0.
        """
        heads = {role: self.heads.get(role, 0) for role in roles}
        size = 0.0
        for s, t in lengths:
            weights = {"encoder": s * s, "cross": s * t, "decoder": t * t}
            weight_count = sum(count * weights[role] for role, count in heads.items())
            size += nbest * (t * _TOKEN_BYTES + weight * weight_count)

            prefix_bytes = t / 2 * _ID_BYTES
            size += t * traced * (prefix_bytes + _CANDIDATES * _CANDIDATE_BYTES)
        return int(size)

    def check(self, size: int) -> None:
        """Raise UsageError if an answer of `size` bytes is too large."""
        if size > self.max_bytes:
            raise UsageError(
                f"the answer would have about {size:,} bytes, and the server's `answer_limit` is "
                f"{self.max_bytes:,}; ask for fewer hypotheses (`nbest`), less attention or no "
                "trace, or send less text at once"
            )

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Wait until `size` bytes are free, and reserve them while the block runs.

        Raises UsageError if the answer is too large, and Stopped.
        """
        self.check(size)
        stop = STOP_EVENT.get()
        with self._changed:
            while self._taken + size > self.max_bytes:
                check_stop(stop)
                self._changed.wait(PATIENCE)
            self._taken += size
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._changed.notify_all()
