"""Counts and durations in messages: "1 line", "1,000 entries", "2 min 10 s"."""

from __future__ import annotations


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun, or with a phrase such as "line holds", in singular or
    plural.
    """
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"


def format_duration(seconds: float) -> str:
    """Format a duration: `1 h 05 min`, `5 min`, `2 min 10 s`, `7 s` or `0.3 s`."""
    if 0.05 <= seconds < 1:
        return f"{seconds:.1f} s"
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    if minutes and whole_seconds:
        return f"{minutes} min {whole_seconds:02d} s"
    if minutes:
        return f"{minutes} min"
    return f"{whole_seconds} s"
