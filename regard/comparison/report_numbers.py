"""Format numbers for the report, and names from users for its sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from regard.common.bilingual import Text
from regard.visualisation.text import clean, isolated

NOTHING = "–"


def plain(text: str) -> str:
    """Prepare a name from a user for a sentence; templates escape it."""
    return isolated(clean(text))


def number(value: int | float | None, digits: int = 2) -> str:
    """Format a number with a fixed number of decimal places and a typographic minus; a dash if it
    is unknown.
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    rounded = round(value, digits) + 0.0  # without the minus of −0
    return f"{rounded:,.{digits}f}".replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """Return a difference with its sign."""
    return f"{value:+,.{digits}f}".replace("-", "−")


def between(low: float, high: float, digits: int = 2) -> Text:
    """Format an interval; empty if both ends are equal, since then none was computed."""
    return Text("", "") if low == high else interval(low, high, digits)


def interval(low: float, high: float, digits: int = 2) -> Text:
    """Format an interval, whose ends may be equal."""
    ends = number(low, digits), number(high, digits)
    return Text(" to ".join(ends), " ~ ".join(ends))


def spread(values: Sequence[float], digits: int, factor: float = 1.0) -> Text:
    """Format the range of measurements, times a factor; empty if there are none."""
    if not values:
        return Text("", "")
    return between(factor * min(values), factor * max(values), digits)


def probability(p: float) -> str:
    """Return a p-value with three digits."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def duration(seconds: float | None) -> str:
    """Format a duration in its two largest units."""
    if seconds is None or not math.isfinite(seconds):
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, remaining_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {remaining_seconds} s"
