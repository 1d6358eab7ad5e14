"""Texts in the content of XML elements: plain, in CDATA, or with inline elements as marks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from regard.common.lazy import lazy_pattern
from regard.documents.document import DocumentOptions
from regard.text.markup.document import MarkupDocument, arranged_markup
from regard.text.markup.elements import Elements, Role
from regard.text.markup.tags import Token, attributes, tokenize
from regard.text.markup.writing import Source

_CDATA = lazy_pattern(r"(?s)<!\[CDATA\[(.*?)\]\]>")
_ONE_CDATA = lazy_pattern(r"(?s)(\s*<!\[CDATA\[)(?:(?!\]\]>).)*(\]\]>\s*)")
_LINE_BREAK = "line break"
"""Name of a text token that divides texts."""


def plain_text(content: str) -> str:
    """Return content of XML as text, without tags and comments."""
    parts = list[str]()
    for token in tokenize(content, "xml"):
        raw = content[token.start : token.end]
        cdata = _CDATA.fullmatch(raw)
        if cdata:
            parts.append(cdata[1])
        elif token.kind == "text":
            parts.append(html.unescape(raw))
    return "".join(parts)


@dataclass(frozen=True)
class Codes:
    """Inline elements of a format.

    Of `native` ones the content is code. `opening` and `closing` ones are the tags of a pair, of
    equal attributes. `kept` ones keep their text, which a model reads. `line_break` matches what
    divides texts besides line feeds.
    """

    native: frozenset[str] = frozenset()
    opening: frozenset[str] = frozenset()
    closing: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    line_break: re.Pattern[str] | None = None

    def arrange(self, text: str, text_role: Role) -> Elements:
        """Return the elements of content, each code as one token, with their roles."""
        tokens = [*self._joined(text, [*tokenize(text, "xml")])]
        elements = Elements(tokens, [-1] * len(tokens), ["point"] * len(tokens))
        stack = list[tuple[str, int]]()
        for index, token in enumerate(tokens):
            name = token.name.rpartition(":")[2]
            if token.kind == "text":
                is_break = token.name == _LINE_BREAK
                elements.roles[index] = "break" if is_break else text_role
            elif name in self.opening:
                stack.append((_key(text, token), index))
            elif name in self.closing:
                if stack and stack[-1][0] == _key(text, token):
                    _pair(elements, stack.pop()[1], index, "open")
            elif token.kind == "open":
                stack.append(("", index))
            elif token.kind == "close":
                while stack[-1][0]:
                    stack.pop()
                start = stack.pop()[1]
                _pair(elements, start, index, self._role(text, tokens[start]))
        return elements

    def _joined(self, text: str, tokens: Sequence[Token]) -> Iterator[Token]:
        """Yield tokens, with the content of native elements joined to their tags, and line breaks
        by themselves.
        """
        depth = 0
        start = tokens[0]
        for token in tokens:
            is_native = token.name.rpartition(":")[2] in self.native
            if depth or (is_native and token.kind == "open"):
                start = start if depth else token
                depth += (token.kind == "open") - (token.kind == "close")
                if not depth:
                    yield start._replace(kind="other", end=token.end)
            elif token.kind == "text" and self.line_break:
                yield from _divided(text, token, self.line_break)
            else:
                yield token

    def _role(self, text: str, token: Token) -> Role:
        values = attributes(text, token)
        if values.get("mtype") == "seg":
            return "break"
        is_kept = values.get("translate") == "no" or values.get("mtype") == "protected"
        if is_kept or token.name.rpartition(":")[2] in self.kept:
            return "unit"
        return "open"


def _key(text: str, token: Token) -> str:
    """Return a key that the tags of a pair have in common."""
    values = attributes(text, token)
    keys = (values.get(name) for name in ("startref", "rid", "id"))
    return f"pair {next(filter(None, keys), '')}"


def _pair(elements: Elements, start: int, end: int, role: Role) -> None:
    elements.partners[start] = end
    elements.partners[end] = start
    elements.roles[start] = role
    elements.roles[end] = "close" if role == "open" else role


def _divided(text: str, token: Token, pattern: re.Pattern[str]) -> Iterator[Token]:
    start = token.start
    for match in pattern.finditer(text, token.start, token.end):
        yield token._replace(start=start, end=match.start())
        start = match.end()
        yield Token("text", match.start(), start, _LINE_BREAK)
    yield token._replace(start=start)


@dataclass(frozen=True)
class Content:
    """A text in content of XML: as a reader sees it, or with its marks.

    `collapses`: white space is a space, and no line break divides the text.
    """

    raw: str
    options: DocumentOptions
    codes: Codes = field(default_factory=Codes)
    collapses: bool = False

    @cached_property
    def text(self) -> str:
        """The text without escapes and tags."""
        text = plain_text(self.raw)
        return " ".join(text.split()) if self.collapses else text

    @cached_property
    def markup(self) -> MarkupDocument | None:
        """The text with its marks, if it has any; the text of CDATA is escaped."""
        text = _CDATA.sub(lambda cdata: html.escape(cdata[1], quote=False), self.raw)
        if all(token.kind == "text" for token in tokenize(text, "xml")):
            return None
        elements = self.codes.arrange(text, "text" if self.collapses else "lines")
        return arranged_markup(Source(text, "xml"), elements, self.options.markup)

    def write(self, text: str, source: Source) -> str:
        """Return the content for a translated text."""
        if self.markup:
            return text
        cdata = _ONE_CDATA.fullmatch(self.raw)
        if cdata:
            text = text.replace("]]>", "]]]]><![CDATA[>")
            return f"{cdata[1]}{text}{cdata[2]}"
        escaped = source.escape(text)
        if self.collapses:
            start = self.raw[: len(self.raw) - len(self.raw.lstrip())]
            end = self.raw[len(self.raw.rstrip()) :]
            return f"{start}{escaped}{end}"
        return escaped if "\r" in self.raw else escaped.replace("\r", "&#13;")
