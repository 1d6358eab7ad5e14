"""Numbers that one side of a pair lacks."""

from __future__ import annotations

import re
from collections import Counter

_DIGITS = re.compile(r"\d+")
_GROUPED = re.compile(
    r"(?<![\d.,])[1-9]\d{0,2}([.,'’ \u00a0\u202f])\d{3}(?:\1\d{3})*(?![.,]?\d)"
)
"""A number with a sign between thousands."""
_HALF_DAY = 12


def different_numbers(source: str, target: str) -> tuple[list[str], list[str]]:
    """Return the numbers of a source that its target lacks, and the reverse.

    1,000 equals 1.000, 1990 equals 90, and 3 (pm) equals 15.
    """
    own, others = _numbers(source), _numbers(target)
    lost = [*(own - others).elements()]
    invented = [*(others - own).elements()]
    for number in lost[:]:
        equals = [other for other in invented if _are_equal(number, other)]
        if equals:
            lost.remove(number)
            invented.remove(equals[0])
    return [*map(str, lost)], [*map(str, invented)]


def _numbers(text: str) -> Counter[int]:
    if not _DIGITS.search(text):
        return Counter()
    text = _GROUPED.sub(lambda match: re.sub(r"\D", "", match[0]), text)
    return Counter(map(int, _DIGITS.findall(text)))


def _are_equal(first: int, second: int) -> bool:
    smaller, larger = sorted((first, second))
    is_time = larger - smaller == _HALF_DAY and smaller > 0 and larger < 24
    is_year = 10 <= smaller == larger % 100 and larger < 3_000
    return is_time or is_year
