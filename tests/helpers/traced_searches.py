"""Searches as the explanation of a translation holds them."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from regard.visualisation.translation_json import Candidate, Step

LOST = 4
"""Id of the token of the hypothesis that is pruned."""


def ids_of(tokens: Sequence[str]) -> tuple[int, ...]:
    """Return ids for tokens, of which the last is the end of the sentence."""
    return (*range(LOST + 1, LOST + len(tokens)), 3)


def search_of(tokens: Sequence[str]) -> tuple[Step, ...]:
    """Return a search of two hypotheses, of which one is pruned at every step."""
    ids = ids_of(tokens)
    steps = list[Step]()
    for t, (token, id_) in enumerate(zip(tokens, ids, strict=True)):
        chosen: Candidate = {
            "beam": 0,
            "id": id_,
            "token": token,
            "fate": "ended" if t == len(tokens) - 1 else "kept",
            "logProb": log(0.75),
            "total": -0.3 * t,
        }
        pruned: Candidate = {
            "beam": 0,
            "id": LOST,
            "token": "▁lost",
            "fate": "pruned",
            "logProb": log(0.125),
            "total": -3.0 - t,
        }
        steps.append({"prefixes": [ids[:t]], "candidates": [chosen, pruned]})

    return tuple(steps)
