"""Steps of a search as plain data: the open hypotheses, and the candidates kept, ended and
pruned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fate = Literal["kept", "ended", "pruned"]
Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Candidate:
    """A token that could come next after one of the open hypotheses."""

    beam: int  # index of the hypothesis in the step's prefixes
    token: int
    log_prob: float  # of the token
    total_log_prob: float  # of the hypothesis with it
    fate: Fate


@dataclass(frozen=True)
class SearchStep:
    """One step of a search: the token ids of the open hypotheses, best first, and the candidates,
    likeliest first.
    """

    prefixes: tuple[Prefix, ...]
    candidates: tuple[Candidate, ...]
