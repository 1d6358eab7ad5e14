"""Tokenise HTML and XML into text, tags, comments and the like, with positions, in linear time.

Errors are forgiven as in browsers: a `<` that begins no tag is text, and a comment that is never
closed runs to the end. A tag without a `>` is text, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from regard.common.lazy import lazy_pattern

Kind = Literal["html", "xml"]
TokenKind = Literal["text", "open", "close", "empty", "other"]
Bounds = tuple[int, int]
"""Start and end of a part of a text or list."""


def names(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


VOID = names("area base br col embed hr img input link meta param source track wbr")
"""HTML elements without an end tag."""
_RAW = names("script style xmp iframe noembed noframes")
"""HTML elements whose content is neither text to translate nor markup."""
_TEXT_ONLY = frozenset(("title", "textarea"))
"""HTML elements whose content is text without tags."""
_FOREIGN = frozenset(("svg", "math"))
_START = {
    "html": lazy_pattern(r"<(?:[A-Za-z]|!|\?|/)"),
    "xml": lazy_pattern(r"<(?:[^\W\d]|:|!|\?|/)"),
}
_NAME = lazy_pattern(r"[^\s/>]+")
_VALUE_OR_END = lazy_pattern(r"=\s*|>")
_ATTRIBUTE = lazy_pattern(r"([^\s=>/\"']+)(?:\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s>]+))?")
_DOCTYPE = lazy_pattern(r"<!DOCTYPE[^\[>]*\[")
_SUBSET_END = lazy_pattern(r"\]\s*>")
_RAW_END = {
    name: lazy_pattern(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in _RAW | _TEXT_ONLY
}


class Token(NamedTuple):
    """A part of the source. `name` is the name of a tag's element, in lower case in HTML.

    "empty" is a tag that is an element by itself; "other" is a comment, a declaration, CDATA, or an
    entire script.
    """

    kind: TokenKind
    start: int
    end: int
    name: str = ""


def tokenize(text: str, kind: Kind) -> Iterator[Token]:
    """Yield the tokens of a text in order; together they are the text."""
    start = foreign = 0
    last_end = text.rfind(">")
    match = _START[kind].search(text)
    while match:
        token = (
            _scan(text, match.start(), kind)
            if match.start() < last_end or match[0] == "<!"
            else None
        )
        if token is None:
            break  # no `>` follows outside of quotes, so all that follows is text
        if token.start > start:
            yield Token("text", start, token.start)
        start = token.end
        if (
            kind == "html"
            and token.name in _FOREIGN
            and token.kind in ("open", "close")
        ):
            foreign = max(0, foreign + (1 if token.kind == "open" else -1))
        if (
            kind == "html"
            and token.name in _RAW_END
            and token.kind in ("open", "empty")
            and not foreign
        ):
            end = _RAW_END[token.name].search(text, start)
            start = end.start() if end else len(text)
            if token.name in _RAW:
                start = (text.find(">", start) + 1 or len(text)) if end else len(text)
                token = Token("other", token.start, start, token.name)
            else:
                yield Token("open", token.start, token.end, token.name)
                token = Token("text", token.end, start)
        if token.end > token.start:
            yield token
        match = _START[kind].search(text, start)
    if start < len(text):
        yield Token("text", start, len(text))


def tag_name(tag: str) -> str:
    """Return the name of the element that a tag in plain text begins or ends, in lower case."""
    return _name(tag, 2 if tag.startswith("</") else 1, "html")


def attributes(text: str, token: Token) -> dict[str, str]:
    """Return the attributes of a start tag, with names in lower case and values without quotes.

    If a name occurs twice, its first value counts.
    """
    result = dict[str, str]()
    for match in _ATTRIBUTE.finditer(
        text, token.start + 1 + len(token.name), token.end - 1
    ):
        value = match[2] or ""
        result.setdefault(
            match[1].lower(), value[1:-1] if value[:1] in ("'", '"') else value
        )
    return result


def _scan(text: str, start: int, kind: Kind) -> Token | None:
    """Return the token that begins with `<` at `start`; None if the token has no end."""
    second = text[start + 1]
    if second == "!":
        return Token("other", start, _declaration_end(text, start, kind))
    if second == "?":
        closing = "?>" if kind == "xml" else ">"
        end = text.find(closing, start)
        end = len(text) if end < 0 else end + len(closing)
        return Token("other", start, end)
    if second == "/":
        end = text.find(">", start) + 1
        name = _name(text, start + 2, kind)
        return Token("close" if name else "other", start, end, name) if end else None
    end = _tag_end(text, start + 1)
    if not end:
        return None
    name = _name(text, start + 1, kind)
    is_void = kind == "html" and name in VOID
    is_empty = is_void or (
        text[end - 2] == "/" and (kind == "xml" or _is_closed(text, start, end))
    )
    return Token("empty" if is_empty else "open", start, end, name)


def _name(text: str, start: int, kind: Kind) -> str:
    match = _NAME.match(text, start)
    name = match[0] if match else ""
    return name.lower() if kind == "html" else name


def _tag_end(text: str, position: int) -> int:
    """Return the offset after the `>` of a tag, 0 if there is none.

    A quote counts only after `=`, and only if it is closed.
    """
    while match := _VALUE_OR_END.search(text, position):
        position = match.end()
        if match[0] == ">":
            return position
        quote = text[position : position + 1]
        if quote and quote in "\"'":
            position = text.find(quote, position + 1) + 1 or position
    return 0


def _is_closed(text: str, start: int, end: int) -> bool:
    """Return whether the slash before `>` closes the tag.

    It may also be the end of a value without quotes, as in `<a href=a/>`.
    """
    tag = text[start : end - 2]
    value = tag[max(tag.rfind(mark) for mark in " \t\n\r\f\"'") + 1 :]
    return "=" not in value


def _declaration_end(text: str, start: int, kind: Kind) -> int:
    """Return the end of `<!…`: a comment, CDATA, a document type or a bogus comment."""
    if text.startswith("<!--", start):
        end = text.find("-->", start + (4 if kind == "xml" else 2))
        return len(text) if end < 0 else end + 3
    if kind == "xml" and text.startswith("<![CDATA[", start):
        end = text.find("]]>", start)
        return len(text) if end < 0 else end + 3
    subset = _DOCTYPE.match(text, start) if kind == "xml" else None
    if subset:
        match = _SUBSET_END.search(text, subset.end())
        return match.end() if match else len(text)
    return text.find(">", start) + 1 or len(text)


def bare_elements(text: str, kind: Kind) -> Iterator[str]:
    """Yield the start tags of elements in which there is no text, at their ends."""
    words = 0
    opened = list[tuple[Token, int]]()
    for token in tokenize(text, kind):
        if token.kind == "text":
            words += not text[token.start : token.end].isspace()
        elif token.kind == "open":
            opened.append((token, words))
        elif token.kind == "close":
            while opened and opened[-1][0].name != token.name:
                opened.pop()
            if opened:
                start, before = opened.pop()
                if words == before:
                    yield text[start.start : start.end]
