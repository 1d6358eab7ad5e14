"""Spans of a text that a translation has to keep."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from regard.contracts.dialects import Dialect, Rule
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


def scan(text: str, dialect: Dialect, objects: Mapping[int, Span]) -> list[Span]:
    """Return the spans of a text in their order; `objects` stand in it for one character each."""
    spans = []
    places = sorted(objects)
    used = 0
    arguments = 0
    for match in dialect.pattern.finditer(text):
        while used < len(places) and places[used] < match.start():
            spans.append(objects[places[used]])
            used += 1
        inner = bisect_right(places, match.end() - 1)
        content = match[0]
        for place in places[used:inner]:
            content = content.replace(STAND_IN, objects[place].text, 1)
        used = inner
        rule = dialect.rules[int(str(match.lastgroup)[1:])]
        own = rule.pattern.match(text, match.start())
        assert own, "a rule matches alone where it matches among others"
        arguments += rule.position is not None
        key = rule.key(own, content, arguments)
        if rule.kind == "number":
            key = number_value(content, text, match.end())
        name = own[rule.name] if rule.name else ""
        spans.append(Span(rule, key, content, match.start(), match.end(), name))
    return [*spans, *(objects[place] for place in places[used:])]


def mask(text: str, spans: list[Span]) -> str:
    """Return a text of the same length without its spans; numbers stay."""
    pieces = []
    end = 0
    for span in spans:
        if span.kind != "number":
            pieces += [text[end : span.start], MASK * (span.end - span.start)]
            end = span.end
    return "".join((*pieces, text[end:]))
