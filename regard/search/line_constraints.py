"""Constraints on the translation of one line, in words; `constraint_text` tokenises them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constraints:
    """Constraints on the translation of one line, in words.

    It begins with `prefix`, holds each of `terms`, and none of `forbid`. Empty: unconstrained.
    """

    prefix: str = ""
    terms: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()


NO_CONSTRAINTS = Constraints()
