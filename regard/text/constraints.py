"""Constraints on the translation of one line, as text; `constraint_text` tokenises them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.common.arguments import TEXT, describe, problems_of_types
from regard.common.counting import counted
from regard.common.errors import UsageError


@dataclass(frozen=True)
class Constraints:
    """Constraints on the translation of one line, as text.

    The translation begins with `prefix`, contains each of `terms`, and none of `forbid`. Empty
    constraints allow everything.
    """

    prefix: str = ""
    terms: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()


NO_CONSTRAINTS = Constraints()
"""Constraints of an unconstrained line."""


def missing_terms(
    is_complete: bool, constraints: Constraints, kind: str
) -> tuple[str, ...]:
    """Return a note if an output lacks a required term; `kind` is "translation" or "caption"."""
    if is_complete or not constraints.terms:
        return ()
    terms = ", ".join(map(repr, constraints.terms))
    return (
        f"the {kind} lacks a required term ({terms}); a larger `beam` or `max_extra` may find room",
    )


def constraints_of_each(
    constraints: Constraints | Sequence[Constraints], count: int, unit: str
) -> list[Constraints]:
    """Return the constraints of each of `count` sources; `unit` is "line" or "image".

    Raises UsageError, with all causes, if their number is wrong or they are not constraints.
    """
    is_one = isinstance(constraints, Constraints)
    is_text = isinstance(constraints, (str, bytes))
    if is_text or not (is_one or isinstance(constraints, Sequence)):
        raise UsageError(
            f"`constraints=`: wanted Constraints, or a list with those of each {unit}, got "
            f"{describe(constraints)}"
        )
    items = [constraints] if isinstance(constraints, Constraints) else list(constraints)
    problems = [problem for item in items for problem in _type_problems(item)]
    UsageError.raise_all(dict.fromkeys(problems))

    per_source = [
        replace(item, terms=tuple(item.terms), forbid=tuple(item.forbid))
        for item in items
    ]
    if is_one:
        per_source *= count
    if len(per_source) != count:
        raise UsageError(
            f"constraints: got {len(per_source)} for {counted(count, unit)}; give one for each "
            f"{unit}, or one for all"
        )
    return per_source


def _type_problems(item: object) -> list[str]:
    """Return an error for each value of the wrong type in the constraints of one line."""
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
