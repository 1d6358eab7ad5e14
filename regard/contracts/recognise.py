"""Recognition of the dialect of the strings of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from regard.contracts.dialects import PLAIN, table

_LEAST = 1.0
"""Weight below which no dialect is recognised."""


@cache
def _evidence() -> dict[str, list[tuple[re.Pattern[str], float]]]:
    return {
        name: [(re.compile(pattern), weight) for pattern, weight in entry["evidence"]]
        for name, entry in table()["dialects"].items()
        if "evidence" in entry
    }


def recognise(strings: Iterable[str]) -> str:
    """Return the dialect that most speaks for in all strings of a file together."""
    scores = dict.fromkeys(_evidence(), 0.0)
    for text in strings:
        for name, evidence in _evidence().items():
            weights = (weight for pattern, weight in evidence if pattern.search(text))
            scores[name] += sum(weights)
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] >= _LEAST else PLAIN
