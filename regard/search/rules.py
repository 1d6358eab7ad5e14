"""Small objects that steer a search: they change what is chosen, never the probability that is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from regard.data.tokenizer import BOS, EOS, PAD, UNK
from regard.shapes import Float, Int, Tensor

__all__ = ["Forbid", "LengthPenalty", "Rule", "end_where_due"]

LAST_RESORT = -1e30  # what ending ranks where rules leave nothing else: behind every beam that can go on


class Rule(Protocol):
    """Takes log-probabilities (N, V) and the pieces so far (N, t); gives what to choose by: −∞ is never chosen."""

    def __call__(self, choice: Float[Tensor, "N V"], history: Int[Tensor, "N t"]) -> Float[Tensor, "N V"]: ...


@dataclass(frozen=True)
class Forbid:
    """Pieces that are never written; by default those that mean nothing in a text."""

    ids: Sequence[int] = (PAD, UNK, BOS)

    def __call__(self, choice: Float[Tensor, "N V"], history: Int[Tensor, "N t"]) -> Float[Tensor, "N V"]:  # noqa: ARG002
        columns = torch.tensor(self.ids, device=choice.device)
        return choice.index_fill(1, columns, -torch.inf)


@dataclass(frozen=True)
class LengthPenalty:
    """The divisor of a log-probability: ((5 + length) / 6)^α (Wu et al. 2016, equation 14), with end of sentence."""

    alpha: float

    def __call__(self, length: int) -> float:
        return float(((5 + length) / 6) ** self.alpha)


def end_where_due(choice: Float[Tensor, "N V"], due: Tensor) -> Float[Tensor, "N V"]:
    """Where a row has reached its longest, or nothing is left to choose, end of sentence is all that may be chosen."""
    stuck = ~(choice.amax(1) > -torch.inf)  # no numbers at all (NaN) leave nothing to choose either
    due = due | stuck
    if not bool(due.any()):
        return choice
    ended = torch.full_like(choice, -torch.inf)
    ended[:, EOS] = torch.where(stuck, LAST_RESORT, 0.0)
    return torch.where(due[:, None], ended, choice)
