"""Numbers of the report as text, and names from outside as parts of sentences."""

from __future__ import annotations

import math

from regard.visualisation.text import clean, isolated

NOTHING = "–"


def plain(text: str) -> str:
    """Return a name from data to put into a sentence; templates escape it."""
    return isolated(clean(text))


def number(value: int | float | None, digits: int = 2) -> str:
    """Return a number with a fixed number of digits and a typographic minus; a dash if it is not
    known.
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:,.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """Return a difference with its sign."""
    return f"{value:+,.{digits}f}".replace("-", "−")


def between(low: float, high: float) -> str:
    """Return an interval; nothing if both ends are one number, since then none was computed."""
    return "" if low == high else f"{number(low)}–{number(high)}"


def probability(p: float) -> str:
    """Return a p-value with three digits."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def duration(seconds: float | None) -> str:
    """Return a duration in the two largest units that it needs."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
