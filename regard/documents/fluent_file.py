"""Message files of Fluent."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fluent.syntax import FluentParser, ast

from regard.common.lazy import lazy_pattern
from regard.documents.document import (
    DocumentOptions,
    DocumentText,
    EditedText,
    Slot,
    value_slot,
)
from regard.documents.encoding import decode_file
from regard.documents.key_values import (
    TOO_DEEP,
    key_values,
    rewrapped,
)
from regard.text.markup.tags import Bounds

_BREAKS = lazy_pattern(r" *(?:\r?\n *)+")
_SPACE = lazy_pattern(r"\s+")
_PARSER = FluentParser(with_spans=True)


def read_fluent(data: bytes, name: str, options: DocumentOptions) -> EditedText:
    """Read a file of Fluent. Raises DataError for an entry that is none."""
    source = decode_file(data, name)
    try:
        entries = _PARSER.parse(source.text).body
    except RecursionError:
        raise source.refused(0, TOO_DEEP) from None
    slots = list[Slot]()
    for entry in entries:
        if isinstance(entry, ast.Junk):
            (problem, *_) = entry.annotations
            cause = f"no Fluent: {problem.message}; mend the file"
            raise source.refused(_bounds(problem)[0], cause)
        if isinstance(entry, (ast.Message, ast.Term)):
            slots += _slots(source.text, entry)
    return key_values(source, slots, options)


def _slots(source: str, entry: ast.Message | ast.Term) -> Iterator[Slot]:
    """Yield the texts of a message or term, and of its attributes."""
    comment = str(entry.comment.content) if entry.comment else ""
    # Attributes of a term are grammar, which no reader sees.
    is_term = isinstance(entry, ast.Term)
    key = f"key {'-' * is_term}{entry.id.name}"
    patterns = {key: entry.value} if entry.value else {}
    for part in () if is_term else entry.attributes:
        patterns[f"{key}.{part.id.name}"] = part.value
    for name, pattern in patterns.items():
        for text_name, start, end in _runs(name, pattern):
            yield _slot(source, start, end, text_name, comment)


def _runs(name: str, pattern: ast.Pattern) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and end of each text of a pattern, which selectors divide."""
    start = -1
    end = 0
    for element in pattern.elements:
        content: ast.SyntaxNode = element
        while isinstance(content, ast.Placeable):
            content = content.expression
        if not isinstance(content, ast.SelectExpression):
            first, end = _bounds(element)
            start = first if start < 0 else start
            continue
        if start >= 0:
            yield name, start, end
        start = -1
        for variant in content.variants:
            key = variant.key
            variant_name = key.name if isinstance(key, ast.Identifier) else key.value
            yield from _runs(f"{name} [{variant_name}]", variant.value)
    if start >= 0:
        yield name, start, end


def _slot(source: str, start: int, end: int, name: str, comment: str) -> Slot:
    raw = source[start:end]
    line = source[source.rfind("\n", 0, start) + 1 : start]
    head = "key =\n " if not line.strip() else "key ="

    def escape(text: str) -> str:
        form = rewrapped(text, raw)
        is_whole = _placeables(f"{head}{form}") == _placeables(f"{head}{raw}")
        return form if is_whole else raw

    text = DocumentText(_BREAKS.sub(_joined, raw), name, "fluent", comment=comment)
    return value_slot(start, end, text, escape)


def _joined(breaks: re.Match[str]) -> str:
    """Return what line breaks mean: a space, or paragraphs."""
    return "\n" * (breaks[0].count("\n") - 1) or " "


def _placeables(message: str) -> list[str] | None:
    """Return the placeables of a message in the order of letters; None if it is not one pattern."""
    (entry, *others) = _PARSER.parse(message).body
    if (
        others
        or not isinstance(entry, ast.Message)
        or entry.attributes
        or not entry.value
    ):
        return None
    parts = (part for part in entry.value.elements if isinstance(part, ast.Placeable))
    return sorted(_SPACE.sub(" ", message[slice(*_bounds(part))]) for part in parts)


def _bounds(node: ast.SyntaxNode) -> Bounds:
    assert node.span, "the parser keeps spans"
    return node.span.start, node.span.end
