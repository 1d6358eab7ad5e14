"""Counts in messages: "1 line", "2 lines", "1,000 entries"."""

from __future__ import annotations


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun, or with a phrase such as "line holds", in singular or
    plural.
    """
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"
