"""Recognition of the dialect of the strings of a file."""

from __future__ import annotations

from collections.abc import Iterable

from regard.contracts.dialects import PLAIN, compiled, table

_LEAST = 1.0
"""Weight below which no dialect is recognised."""


def recognise(strings: Iterable[str]) -> str:
    """Return the dialect that most speaks for in all strings of a file together."""
    dialects = table()["dialects"].items()
    scores = {name: 0.0 for name, entry in dialects if "evidence" in entry}
    for text in strings:
        for name in scores:
            for pattern, weight in table()["dialects"][name]["evidence"]:
                if compiled(pattern).search(text):
                    scores[name] += weight
    best = max(scores, key=lambda name: scores[name])
    return best if scores[best] >= _LEAST else PLAIN
