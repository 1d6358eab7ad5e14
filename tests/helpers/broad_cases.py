"""Mark cases as `broad`: further values of a law or a table, which `make quick` leaves to `make
test`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any

import pytest


def broad(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """Return parameters for `pytest.mark.parametrize`, all but the first `quick` marked `broad`."""
    return [_parameter(value, number < quick) for number, value in enumerate(values)]


def broad_beyond_cover(
    values: Sequence[Any],
    features: Sequence[Set[Any]],
    ids: Sequence[str] | None = None,
) -> list[Any]:
    """Return parameters, of which a few that together have every feature are not marked `broad`."""
    missing = set().union(*features)
    cover = set()
    while missing:
        best = max(range(len(features)), key=lambda i: len(features[i] & missing))
        cover.add(best)
        missing -= features[best]

    names = ids or [None] * len(values)
    return [_parameter(value, i in cover, names[i]) for i, value in enumerate(values)]


def _parameter(value: Any, is_quick: bool, name: str | None = None) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=() if is_quick else pytest.mark.broad, id=name)
