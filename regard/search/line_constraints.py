"""Constraints on the translation of one line, in words; `constraint_text` tokenises them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.common.errors import UsageError


@dataclass(frozen=True)
class Constraints:
    """Constraints on the translation of one line, in words.

    It begins with `prefix`, holds each of `terms`, and none of `forbid`. Empty: unconstrained.
    """

    prefix: str = ""
    terms: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()


NO_CONSTRAINTS = Constraints()
"""Constraints of a line that has none."""


def constraints_of_each(constraints: Constraints | Sequence[Constraints], count: int, unit: str) -> list[Constraints]:
    """Return the constraints of each of `count` sources (`unit`: line or image).

    Raises UsageError if they are not as many.
    """
    each = [constraints] * count if isinstance(constraints, Constraints) else list(constraints)
    if len(each) != count:
        raise UsageError(f"constraints: got {len(each)} for {count} {unit}s; give one for each {unit}, or one for all")
    return each
