"""Spans of a text that a translation has to keep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from regard.contracts.dialects import Dialect, Rule, compiled
from regard.contracts.numbers import number_value

STAND_IN = "\ue000"
"""Character in the text of a message for an argument or a selector."""
MASK = "\ufffc"
"""Character in prose for one of a span."""


@dataclass(frozen=True)
class Span:
    """Stretch of a text; spans of equal kind and key are equal."""

    rule: Rule
    key: str
    text: str
    start: int
    end: int
    name: str = ""

    @property
    def kind(self) -> str:
        """Kind of the span, such as `placeholder`."""
        return self.rule.kind


def scan(text: str, dialect: Dialect, objects: Iterable[Span] = ()) -> list[Span]:
    """Return the spans of a text in their order, and with them `objects`, which are in it."""
    spans = [*objects]
    arguments = 0
    for match in dialect.pattern.finditer(text):
        start, end = match.span()
        rule = dialect.rules[int(str(match.lastgroup)[1:])]
        own = compiled(rule.pattern).match(text, start)
        assert own, "a rule matches alone where it matches among others"
        arguments += rule.position is not None
        key = rule.key(own, arguments)
        if rule.kind == "number":
            key = number_value(key, text, end)
        name = own[rule.name] if rule.name else key if rule.role == "toggle" else ""
        shown = match[0].replace(STAND_IN, "{…}")
        spans.append(Span(rule, key, shown, start, end, name))
    return sorted(spans, key=lambda span: span.start)


def mask(text: str, spans: list[Span]) -> str:
    """Return a text of the same length without its spans; numbers stay."""
    letters = list(text)
    for span in spans:
        if span.kind != "number":
            letters[span.start : span.end] = MASK * (span.end - span.start)
    return "".join(letters)
