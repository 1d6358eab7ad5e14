"""Values of numbers, however a language groups their digits."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

from regard.contracts.dialects import compiled, table

_GROUP = re.compile(r"[.,'’\u00a0\u202f ]")
_DIGIT = re.compile(r"\d")


def to_ascii_digits(text: str) -> str:
    """Replace the digits of all scripts by those of ASCII, one for one."""
    return _DIGIT.sub(lambda match: str(unicodedata.decimal(match[0])), text)


def number_value(number: str, text: str, end: int) -> str:
    """Return the value of a number that ends in a text at `end`: 1,000 = 1.000 = 1 000 = 1천. One
    that begins with several zeros is a name, such as 007.
    """
    if number.startswith("00") and number.strip("0").isdecimal():
        return number
    *whole, last = _GROUP.split(number)
    is_grouped = len(last) == 3 and (len(number) < 8 or len(whole) > 1)
    mark = "." if whole and not is_grouped else ""
    value = Decimal("".join((*whole, mark, last)))
    multipliers = table()["multipliers"]
    factor = compiled(rf"\s?({'|'.join(multipliers)})").match(text, end)
    if factor:
        value = value.scaleb(multipliers[factor[1]])
    return f"{value.normalize():f}"
