"""Dialects of strings of programs, as `dialects.json` has them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from regard.common.errors import UsageError

PLAIN = "plain"
"""The dialect of strings that no other is known for: the unambiguous codes of all."""


@dataclass(frozen=True, eq=False)
class Rule:
    """Kind of span: its pattern, and when two of its spans are equal."""

    kind: str
    pattern: re.Pattern[str]
    identity: tuple[int, ...] = ()
    ignore: re.Pattern[str] | None = None
    keyed: re.Pattern[str] | None = None
    position: int | None = None
    role: str = ""
    name: int = 0
    is_free: bool = False
    place: str = ""

    def key(self, match: re.Match[str], text: str, number: int) -> str:
        """Return what is equal of equal spans; `number` counts arguments without a number."""
        if self.keyed:
            text = "".join(self.keyed.findall(text))
        elif self.identity:
            text = "".join(match[group] or "" for group in self.identity)
        if self.ignore:
            text = self.ignore.sub("", text)
        if self.position is None:
            return text
        given = match[self.position] if self.position else None
        return f"{text} of argument {given or number}"


@dataclass(frozen=True, eq=False)
class Grammar:
    """Form of nested messages: the tokens of a text, of an argument and of a branch."""

    special: re.Pattern[str]
    argument: re.Pattern[str]
    selector: re.Pattern[str]
    key: re.Pattern[str]
    default: str
    counted: tuple[str, ...]
    is_closed: bool


@dataclass(frozen=True, eq=False)
class Dialect:
    """Rules of a dialect, first those of its own, and their patterns as one."""

    name: str
    rules: tuple[Rule, ...]
    pattern: re.Pattern[str]
    grammar: Grammar | None
    raw: tuple[tuple[str, re.Pattern[str]], ...]


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
    rules = [_rule(**rule) for group in groups for rule in table()["rules"][group]]
    patterns = (f"(?P<r{i}>{rule.pattern.pattern})" for i, rule in enumerate(rules))
    grammar = entry.get("grammar")
    return Dialect(
        name,
        tuple(rules),
        re.compile("|".join(patterns)),
        _grammar(**table()["grammars"][grammar]) if grammar else None,
        tuple((escaped, re.compile(raw)) for escaped, raw in entry.get("raw", ())),
    )


def _rule(kind: str, pattern: str, **more: Any) -> Rule:
    for name in more.keys() & {"ignore", "keyed"}:
        more[name] = re.compile(more[name])
    more["identity"] = tuple(more.get("identity", ()))
    more["is_free"] = more.pop("free", False)
    return Rule(kind, re.compile(pattern), **more)


def _grammar(
    default: str, counted: list[str], closed: bool, **patterns: str
) -> Grammar:
    compiled = {name: re.compile(pattern) for name, pattern in patterns.items()}
    return Grammar(
        **compiled, default=default, counted=tuple(counted), is_closed=closed
    )
