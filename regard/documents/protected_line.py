"""Plain lines whose placeholders, addresses, code and emoji are kept: they stand aside, as tags do, in translation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, unescape

from regard.data.spans import find_spans
from regard.documents.elements import MarkupOptions
from regard.documents.markup import AlignedLine, MarkupDocument, parse_markup

KEPT = frozenset({"address", "tag", "entity", "message", "placeholder", "token", "code", "path", "emoji"})
"""Kinds of spans that no model has to see; keys, symbols and numbers are often part of what it has learnt."""
_MARK = re.compile(r'<kept-(?:span|part) id="(\d+)"/>|(<[^<>]+>)')


@dataclass(frozen=True)
class ProtectedLine:
    """A line with spans, as XML in which a tag stands for each that is none; `lines` are what is to be translated."""

    document: MarkupDocument
    spans: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        return self.document.lines

    def render(self, translations: Sequence[AlignedLine]) -> str:
        """Return the line with translations in the place of its lines, and each span where its tag stands then."""
        text, parts, end = self.document.render(translations), list[str](), 0
        for match in _MARK.finditer(text):
            parts += [unescape(text[end : match.start()]), match[2] or self.spans[int(match[1])]]
            end = match.end()
        return "".join([*parts, unescape(text[end:])])


def protect_line(line: str, sentences: bool = True) -> ProtectedLine | None:
    """Take the spans out of a line; None if it has none. `sentences`: its sentences are translated by themselves."""
    spans = [span for span in find_spans(line) if span.kind in KEPT]
    if not spans:
        return None
    parts, end = list[str](), 0
    for number, span in enumerate(spans):
        name = "part" if span.kind == "message" else "span"  # texts of a message are translated by themselves
        text = line[span.start : span.end]
        is_own = span.kind == "tag" and not text.startswith("<kept-")
        parts += [escape(line[end : span.start]), text if is_own else f'<kept-{name} id="{number}"/>']
        end = span.end
    options = MarkupOptions(sentences=sentences, splitting_tags=frozenset({"kept-part"}))
    document = parse_markup("".join([*parts, escape(line[end:])]), "xml", options)
    return ProtectedLine(document, tuple(line[start:stop] for start, stop, _ in spans))
