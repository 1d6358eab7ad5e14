"""Small objects that steer a search: they change what is chosen, never the probability that is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from regard.data.tokenizer import BOS, PAD, UNK
from regard.search.hypothesis import Task

if TYPE_CHECKING:
    from regard.search.front import Front

__all__ = ["Array", "Bans", "Forbid", "LengthPenalty", "Rule"]

Array = npt.NDArray[Any]
Bans = tuple[Array, Array]
"""Pieces that may not come next: row numbers, and beside each the piece."""


class Rule:
    """Steers a search in one of three ways, cheapest first; by default it does nothing.

    `never`: pieces that are written nowhere. `bans`: what may not come next, known before the model is asked.
    `reweigh`: what to choose by instead of the log-probabilities; such a rule sees whole distributions, and must say
    that it is `whole`.
    """

    never: Sequence[int] = ()
    whole: bool = False

    def concerns(self, task: Task) -> bool:  # noqa: ARG002
        """Whether the rule has anything to say about this sentence; where it concerns none, it costs nothing."""
        return True

    def bans(self, front: Front) -> Bans | None:  # noqa: ARG002
        """What may not be written next."""
        return None

    def reweigh(self, choice: Array, front: Front) -> Array:  # noqa: ARG002
        """Other numbers (N, V) to choose by; −∞ is never chosen. It may change what it is given."""
        return choice


@dataclass(frozen=True)
class Forbid(Rule):
    """Pieces that are never written; by default those that mean nothing in a text."""

    never: Sequence[int] = (PAD, UNK, BOS)


@dataclass(frozen=True)
class LengthPenalty:
    """The divisor of a log-probability: ((5 + length) / 6)^α (Wu et al. 2016, equation 14), with end of sentence."""

    alpha: float

    def __call__(self, length: int) -> float:
        return float(((5 + length) / 6) ** self.alpha)
