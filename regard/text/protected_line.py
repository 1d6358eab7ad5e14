"""Plain lines whose placeholders, addresses, code and emoji are kept: they stand aside, as tags do,
in translation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regard.data.copy_tokens import NOT_COPIED, Copies, with_copies
from regard.data.sentences import TextLayout, split_text
from regard.data.spans import KEPT, find_spans
from regard.data.text import INVISIBLE
from regard.text.aligned_line import AlignedLine

if TYPE_CHECKING:
    from regard.text.markup.document import MarkupDocument

MOST_COPIED = 2
"""Spans of a line that copy tokens stand for: of more, models leave most out, and translate the
rest less well.
"""
_MARK = re.compile(r'<kept-(?:span|part) id="(\d+)"/>|(<[^<>]+>)')


@dataclass(frozen=True)
class ProtectedLine:
    """A line with spans: copy tokens stand for all of them, or it is XML with a tag for each.

    `lines` are what is to be translated.
    """

    document: TextLayout | MarkupDocument
    spans: tuple[str, ...]
    copied: Copies = field(default_factory=Copies)
    """The spans that copy characters stand for."""

    @property
    def lines(self) -> tuple[str, ...]:
        return self.document.lines

    @property
    def needs_links(self) -> bool:
        """True if spans are put back by word links."""
        return not isinstance(self.document, TextLayout)

    def render(self, translations: Sequence[AlignedLine]) -> str:
        """Return the line with translations in the place of its lines, and each span where its tag
        stands then.
        """
        if isinstance(self.document, TextLayout):
            return self.copied.restore(
                self.document.join([line.text for line in translations])
            )
        text = self.document.render(translations)
        parts = list[str]()
        end = 0
        for match in _MARK.finditer(text):
            parts += [
                _unescaped(text[end : match.start()]),
                match[2] or self.spans[int(match[1])],
            ]
            end = match.end()
        return "".join([*parts, _unescaped(text[end:])])


def protect_line(
    line: str,
    sentences: bool = True,
    copies: str = "",
    own: Any = None,
    kinds: Collection[str] = KEPT,
) -> ProtectedLine | None:
    """Take the spans out of a line; None if it has none. `sentences`: its sentences are translated
    by themselves.

    `copies`: the characters of the model's copy tokens. They stand for spans that are few and no
    tags. `own`: the compiled patterns of a user. `kinds`: of the spans that are taken out.
    """
    # As every model reads it; beside a span it would count as a letter.
    line = INVISIBLE.sub("", line)
    spans = [span for span in find_spans(line, own) if span.kind in kinds]
    if not spans:
        return None
    texts = tuple(line[start:stop] for start, stop, _ in spans)
    if len(spans) <= min(MOST_COPIED, len(copies)) and not any(
        span.kind in NOT_COPIED for span in spans
    ):
        places = [(span.start, span.end) for span in spans]
        marked = with_copies(line, [*zip(places, copies, strict=False)])
        return ProtectedLine(
            split_text(marked, sentences=sentences),
            texts,
            Copies.of(line, places, copies),
        )
    # Late: few lines have such spans.
    from regard.text.markup.document import parse_markup
    from regard.text.markup.elements import LINE_TAGS, MarkupOptions
    from regard.text.markup.tags import tag_name

    parts = list[str]()
    end = 0
    for number, (span, text) in enumerate(zip(spans, texts, strict=True)):
        name = tag_name(text) if span.kind == "tag" else ""
        # What stands on its sides is translated by itself.
        if span.kind == "message" or name in LINE_TAGS:
            mark = f'<kept-part id="{number}"/>'
        elif name and not name.startswith("kept-"):
            mark = text
        else:
            mark = f'<kept-span id="{number}"/>'
        parts += [_escaped(line[end : span.start]), mark]
        end = span.end
    options = MarkupOptions(
        sentences=sentences, splitting_tags=frozenset({"kept-part"})
    )
    return ProtectedLine(
        parse_markup("".join([*parts, _escaped(line[end:])]), "xml", options), texts
    )


def _escaped(text: str) -> str:
    """Return a text as XML writes it; the standard library's function would import what reads
    addresses.
    """
    return text.replace("&", "&amp;").replace(">", "&gt;").replace("<", "&lt;")


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
