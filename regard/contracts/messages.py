"""Nested messages (ICU, Fluent, Java's choice) as parts with branches, read in linear time.

The parser keeps its open branches on a list, so that no depth of nesting exceeds Python's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from regard.contracts.dialects import (
    PLAIN,
    Dialect,
    Grammar,
    Rule,
    compiled,
    get_dialect,
)
from regard.contracts.numbers import to_ascii_digits
from regard.contracts.spans import STAND_IN, Span, mask, scan

ARGUMENT = Rule("placeholder")
SELECTOR = Rule("selector")
QUOTED = Rule("escape")
DOUBLED_QUOTE = Rule("quote", free=True)
_SPACE = re.compile(r"(?<=[{,:(|])\s+|\s+(?=[},:|)])")
_END = re.compile(r"\s*\}")


class MalformedMessage(ValueError):
    """A text is no message of its dialect; it says why."""


@dataclass
class Part:
    """Text of a string, or of a branch, with its spans; its selectors hold further parts."""

    text: str
    dialect: Dialect
    spans: list[Span]
    selectors: list[Selector]
    problem: str = ""

    def __post_init__(self) -> None:
        self.prose = mask(self.text, self.spans)


@dataclass
class Selector:
    """Choice between branches by an argument: `{count, plural, …}`."""

    head: str
    is_counted: bool
    branches: list[tuple[str, Part]] = field(default_factory=list)
    default: str = ""


def read(text: str, dialect: Dialect) -> Part:
    """Return the parts of a string; one that is malformed is plain text, with its `problem`."""
    text = to_ascii_digits(text)
    try:
        return _Parser(text, dialect).parse()
    except MalformedMessage as error:
        plain = get_dialect(PLAIN)
        return Part(text, plain, scan(text, plain), [], str(error))


class Syntax(NamedTuple):
    """Stretch of a text that is syntax of a message; if it `divides`, it parts two texts."""

    start: int
    end: int
    divides: bool


def syntax(text: str, dialect: Dialect) -> list[Syntax]:
    """Return the syntax of a message in its order; none if it is malformed."""
    parser = _Parser(to_ascii_digits(text), dialect)
    try:
        parser.parse()
    except MalformedMessage:
        return []
    return parser.syntax


class _Frame:
    """Message under construction: the whole string, or the branch `key` of a selector."""

    def __init__(self, selector: Selector | None = None, key: str = "") -> None:
        self.selector = selector
        self.key = key
        self.pieces: list[str] = []
        self.length = 0
        self.objects: list[Span] = []
        self.selectors: list[Selector] = []

    def add_text(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)

    def add_code(self, rule: Rule, text: str, key: str = "") -> None:
        start = self.length
        self.add_text(STAND_IN)
        self.objects.append(Span(rule, key or text, text, start, start + 1))

    def to_part(self, dialect: Dialect) -> Part:
        text = "".join(self.pieces)
        return Part(text, dialect, scan(text, dialect, self.objects), self.selectors)


class _Parser:
    """Reader of one message, at `position` of its text."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.dialect = dialect
        self.position = 0
        self.frames = [_Frame()]
        self.syntax: list[Syntax] = []

    def parse(self) -> Part:
        """Return the parts of the message."""
        grammar = self.dialect.grammar
        while grammar and (
            match := compiled(grammar.special).search(self.text, self.position)
        ):
            self.frames[-1].add_text(self.text[self.position : match.start()])
            self.position = match.end()
            self._read_token(grammar, match)
        if len(self.frames) > 1:
            raise MalformedMessage(f"{self.frames[-1].key!r} is not closed")
        self.frames[0].add_text(self.text[self.position :])
        return self.frames[0].to_part(self.dialect)

    def _read_token(self, grammar: Grammar, match: re.Match[str]) -> None:
        token = match[0]
        frame = self.frames[-1]
        objects = len(frame.objects)
        is_inner = frame.selector and not grammar.closed
        if token == "{":
            self._read_argument(grammar, match.start())
        elif token == "}" and frame.selector:
            self._close_branch(grammar)
        elif token == "''":
            frame.add_code(DOUBLED_QUOTE, token)
        elif token[0] == "'":
            frame.add_code(QUOTED, token)
        elif token == "#" and frame.selector and frame.selector.is_counted:
            frame.add_code(ARGUMENT, token)
        elif token != "#" and is_inner:
            self._end_branch()
            start = match.end() if token == "|" else match.start()
            self._open_branch(grammar, frame.selector, start)
        else:
            frame.add_text(token)
        divides = self.frames[-1] is not frame
        if divides or len(frame.objects) > objects:
            self.syntax.append(Syntax(match.start(), self.position, divides))

    def _read_argument(self, grammar: Grammar, start: int) -> None:
        if match := compiled(grammar.selector).match(self.text, start):
            head = ", ".join(filter(None, match.groups()))
            selector = Selector(head, match[2] in grammar.counted)
            self.frames[-1].selectors.append(selector)
            self.frames[-1].add_code(SELECTOR, head)
            self._open_branch(grammar, selector, match.end())
        elif match := compiled(grammar.argument).match(self.text, start):
            key = _SPACE.sub("", match[0])
            self.frames[-1].add_code(ARGUMENT, match[0], key)
            self.position = match.end()
        else:
            beginning = self.text[start : start + 20]
            raise MalformedMessage(f"{beginning!r} at {start} begins no argument")

    def _open_branch(
        self, grammar: Grammar, selector: Selector | None, start: int
    ) -> None:
        match = compiled(grammar.key).match(self.text, start)
        if not match or not selector:
            raise MalformedMessage(f"no branch begins at {start}")
        if grammar.default and grammar.default in (match[1], match[0].strip()[0]):
            selector.default = match[1]
        self.frames.append(_Frame(selector, match[1]))
        self.position = match.end()

    def _end_branch(self) -> Selector:
        frame = self.frames.pop()
        assert frame.selector, "only branches end"
        frame.selector.branches.append((frame.key, frame.to_part(self.dialect)))
        return frame.selector

    def _close_branch(self, grammar: Grammar) -> None:
        selector = self._end_branch()
        end = _END.match(self.text, self.position) if grammar.closed else None
        if grammar.closed and not end:
            self._open_branch(grammar, selector, self.position)
            return
        self.position = end.end() if end else self.position
        if grammar.default and not selector.default:
            raise MalformedMessage(f"{selector.head} has no branch {grammar.default}")
        keys = [key for key, _ in selector.branches]
        if len(set(keys)) < len(keys):
            raise MalformedMessage(f"{selector.head} has a branch twice")
        selector.default = selector.default or keys[-1]
