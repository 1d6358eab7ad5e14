"""Dialects of strings of programs, as `dialects.json` has them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from regard.common.errors import UsageError

PLAIN = "plain"
"""The dialect of strings that no other is known for: the unambiguous codes of all."""

compiled: Callable[[str], re.Pattern[str]] = cache(re.compile)
"""Compile a pattern of the table, once."""


@dataclass(frozen=True)
class Rule:
    """Kind of span: its pattern, and when two of its spans are equal."""

    kind: str
    pattern: str = ""
    identity: tuple[int, ...] = ()
    ignore: str = ""
    position: int | None = None
    role: str = ""
    name: int = 0
    free: bool = False
    anchor: str = ""

    def key(self, match: re.Match[str], number: int) -> str:
        """Return what is equal of equal spans; `number` counts arguments without a number."""
        groups = (match[group] or "" for group in self.identity)
        text = "".join(groups) if self.identity else match[0]
        if self.ignore:
            text = compiled(self.ignore).sub("", text)
        if self.position is None:
            return text
        given = match[self.position] if self.position else None
        return f"{text} of argument {given or number}"


@dataclass(frozen=True)
class Grammar:
    """Form of nested messages: the tokens of a text, of an argument and of a branch.

    `default` is the key, or the mark, of a branch that has to be there; in the branches of
    `counted` selectors # is an argument; branches that are `closed` end with a brace of their own.
    """

    special: str
    argument: str
    selector: str
    key: str
    default: str
    counted: list[str]
    closed: bool


@dataclass(frozen=True)
class Dialect:
    """Rules of a dialect, its own before those of all dialects, and their patterns as one."""

    name: str
    rules: list[Rule]
    pattern: re.Pattern[str]
    grammar: Grammar | None
    raw: list[tuple[str, str]]


@cache
def table() -> dict[str, Any]:
    """Return the contents of `dialects.json`."""
    file = resources.files("regard.contracts") / "dialects.json"
    contents: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return contents


@cache
def get_dialect(name: str) -> Dialect:
    """Return a dialect by its name, or by the flag of a file format, such as `c-format`."""
    dialects = table()["dialects"]
    name = table()["flags"].get(name, name)
    if name not in dialects:
        known = ", ".join(sorted(dialects))
        raise UsageError(f"dialect {name!r} is not known; use one of {known}")
    entry = dialects[name]
    groups = [*entry["rules"], "shared"]
    rules = [Rule(**rule) for group in groups for rule in table()["rules"][group]]
    patterns = (f"(?P<r{i}>{rule.pattern})" for i, rule in enumerate(rules))
    grammar = table()["grammars"].get(entry.get("grammar"))
    return Dialect(
        name,
        rules,
        re.compile("|".join(patterns)),
        Grammar(**grammar) if grammar else None,
        entry.get("raw", []),
    )
