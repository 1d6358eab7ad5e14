"""Read-only view of the beams of a search: all that a rule (logits processor) may see."""

from __future__ import annotations

from typing import Protocol

from regard.search.constraints import ConstraintState
from regard.search.task import Task
from regard.shapes import Array

__all__ = ["BeamView"]


class BeamView(Protocol):
    """Open hypotheses of B sentences with K beams each; row b·K + k is beam k of sentence b."""

    @property
    def tasks(self) -> tuple[Task, ...]: ...  # (B)
    @property
    def tokens(self) -> Array: ...  # (N,) the newest token of each row
    @property
    def history(self) -> Array: ...  # (N, t) all tokens so far; undefined beyond a sentence's length
    @property
    def lengths(self) -> Array: ...  # (B,) tokens so far
    @property
    def width(self) -> int: ...  # K
    @property
    def constraint_states(self) -> dict[int, ConstraintState]: ...  # of each row whose task has terms

    def prefix_of(self, row: int) -> tuple[int, ...]:
        """Return the token ids that a row has written."""
