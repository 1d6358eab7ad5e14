"""Plural forms of languages: their number, the categories of CLDR, and the form of each number."""

from __future__ import annotations

import gettext
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from regard.common.lazy import lazy_pattern
from regard.data.language_codes import base_language

_NUMBERS = range(1_000)
"""Numbers for which a rule is tried; all rules repeat after a hundred, or are constant."""
_HEADER = lazy_pattern(r"\s*nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=([^;]+);?\s*")


@dataclass(frozen=True)
class PluralRule:
    """Rule of a language. `expression`: the index of the form for `n` things, in C; `categories`:
    those of the forms, in order; empty if they are unknown.
    """

    count: int
    expression: str
    categories: tuple[str, ...] = ()

    @property
    def header(self) -> str:
        """The value of Plural-Forms in a message catalogue."""
        return f"nplurals={self.count}; plural=({self.expression});"

    @cached_property
    def forms(self) -> list[int]:
        """The index of the form of each number. Raises ValueError for one that is not counted."""
        form: Callable[[int], int] = gettext.c2py(self.expression)
        try:
            indices = [int(form(number)) for number in _NUMBERS]
        except ZeroDivisionError:
            raise ValueError("it divides by 0") from None
        if self.count < 1 or max(indices) >= self.count or min(indices) < 0:
            wrong = f"it has forms up to {max(indices)}"
            raise ValueError(f"{wrong}, and nplurals={self.count} are counted from 0")
        return indices

    def is_singular(self, form: int) -> bool:
        """Return whether a form is that of one thing."""
        return self.count > 1 and self.forms[1] == form

    def is_for_one(self, form: int) -> bool:
        """Return whether a form is that of one thing, and of no other number."""
        return self.is_singular(form) and self.forms.count(form) == 1


ENGLISH = PluralRule(2, "n != 1", ("one", "other"))


@cache
def _rules() -> dict[str, PluralRule]:
    file = Path(__file__).parent / "plural_rules.json"
    rules = dict[str, PluralRule]()
    for row in json.loads(file.read_text(encoding="utf-8")):
        categories = tuple(row["categories"].split())
        rule = PluralRule(len(categories), row["expression"], categories)
        rules |= dict.fromkeys(row["languages"].split(), rule)
    return rules


def plural_rule(code: str | None) -> PluralRule | None:
    """Return the rule of a language by its code; None if it is unknown."""
    code = (code or "").replace("_", "-")
    return _rules().get(code) or _rules().get(base_language(code))


def read_plural_rule(header: str) -> PluralRule:
    """Read the value of Plural-Forms. Raises ValueError, with the reason, for one that is wrong."""
    match = _HEADER.fullmatch(header)
    if not match:
        raise ValueError("it is not of the form nplurals=2; plural=(n != 1);")
    rule = PluralRule(int(match[1]), match[2])
    rule.is_for_one(0)
    return rule
