"""Constraints on the translation of one line, in words; `constraint_text` tokenises them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.common.arguments import TEXT, describe, problems_of_types
from regard.common.counting import counted
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


def missing_terms(
    is_complete: bool, constraints: Constraints, kind: str
) -> tuple[str, ...]:
    """Return the note on an output (`kind`: translation or caption) that lacks a required term, if
    it does.
    """
    if is_complete or not constraints.terms:
        return ()
    terms = ", ".join(map(repr, constraints.terms))
    return (
        f"the {kind} lacks a required term ({terms}); a larger `beam` or `max_extra` may find room",
    )


def constraints_of_each(
    constraints: Constraints | Sequence[Constraints], count: int, unit: str
) -> list[Constraints]:
    """Return the constraints of each of `count` sources (`unit`: line or image).

    Raises UsageError, with all causes, if they are not as many, or are no constraints.
    """
    is_one = isinstance(constraints, Constraints)
    is_text = isinstance(constraints, (str, bytes))
    if is_text or not (is_one or isinstance(constraints, Sequence)):
        wanted = "`constraints=`: wanted Constraints, or a list with those of each"
        raise UsageError(f"{wanted} {unit}, got {describe(constraints)}")
    given = [constraints] if isinstance(constraints, Constraints) else list(constraints)
    UsageError.raise_all(
        dict.fromkeys(cause for item in given for cause in _type_problems(item))
    )
    each = [
        replace(item, terms=tuple(item.terms), forbid=tuple(item.forbid))
        for item in given
    ]
    each = each * count if is_one else each
    if len(each) != count:
        got = f"got {len(each)} for {counted(count, unit)}"
        raise UsageError(
            f"constraints: {got}; give one for each {unit}, or one for all"
        )
    return each


def _type_problems(item: Any) -> list[str]:
    """Return what is of another type in the constraints of one line."""
    if not isinstance(item, Constraints):
        return [f"`constraints=`: wanted Constraints, got {describe(item)}"]
    problems = problems_of_types(TEXT, {"prefix": item.prefix})
    for name, texts in (("terms", item.terms), ("forbid", item.forbid)):
        is_list = isinstance(texts, (list, tuple, set, frozenset))
        if not (is_list and all(isinstance(text, str) for text in texts)):
            problems.append(
                f"`{name}=`: wanted a tuple of texts, got {describe(texts)}"
            )
    return problems
