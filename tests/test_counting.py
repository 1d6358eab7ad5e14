"""Counts in messages stand in the singular or the plural."""

from __future__ import annotations

import pytest

from regard.common.counting import counted


@pytest.mark.parametrize(
    ("count", "nouns", "expected"),
    [
        (0, ("line",), "0 lines"),
        (1, ("line",), "1 line"),
        (2, ("line",), "2 lines"),
        (12_345, ("line",), "12,345 lines"),
        (1, ("entry", "entries"), "1 entry"),
        (3, ("entry", "entries"), "3 entries"),
        (1, ("pair was", "pairs were"), "1 pair was"),
    ],
)
def test_one_is_singular(count: int, nouns: tuple[str, ...], expected: str) -> None:
    assert counted(count, *nouns) == expected
