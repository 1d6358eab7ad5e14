"""Steps of a search as plain data: open hypotheses, and candidates kept, ended and pruned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Fate = Literal["kept", "ended", "pruned"]
Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Candidate:
    """A candidate for the next token of an open hypothesis."""

    beam: int  # index of the hypothesis in the step's prefixes
    token: int
    log_prob: float  # of the token
    total_log_prob: float  # of the hypothesis followed by the token
    fate: Fate


@dataclass(frozen=True)
class SearchStep:
    """One step of a search.

    `prefixes` are the token ids of the open hypotheses, best first; `candidates` are likeliest
    first.
    """

    prefixes: tuple[Prefix, ...]
    candidates: tuple[Candidate, ...]
