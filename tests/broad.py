"""Mark cases as `broad`: further values of a law or a table, which `make quick` leaves to `make
test`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

import pytest


def broad(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """Return parameters for `pytest.mark.parametrize`, all but the first `quick` marked `broad`."""
    values = [tuple(value) if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*value, marks=() if i < quick else pytest.mark.broad)
        for i, value in enumerate(values)
    ]


def broad_beyond_cover(
    values: Sequence[Any], features: Sequence[Set[Any]], ids: Sequence[str] | None = None
) -> list[Any]:
    """Return parameters, of which a few that together have every feature are not marked `broad`."""
    missing = set().union(*features)
    cover = set()
    while missing:
        best = max(range(len(features)), key=lambda i: len(features[i] & missing))
        cover.add(best)
        missing -= features[best]
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=() if i in cover else pytest.mark.broad,
            id=ids[i] if ids else None,
        )
        for i, value in enumerate(values)
    ]


def broad_pairs(pairs: Sequence[tuple[str, str]], unpack: bool = True) -> list[Any]:
    """Return pairs as parameters; those that show each first and each second value once are not
    marked `broad`.

    `unpack` makes each pair two parameters; without it a pair is one, as fixtures need it.
    """
    features = [{(0, first), (1, second)} for first, second in pairs]
    return broad_beyond_cover(
        [pair if unpack else [*pair] for pair in pairs], features, ["-".join(p) for p in pairs]
    )
