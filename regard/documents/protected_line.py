"""Plain lines whose placeholders, addresses, code and emoji are kept: they stand aside, as tags do, in translation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from xml.sax.saxutils import escape, unescape

from regard.data.copy_tokens import COPIED, Copies
from regard.data.sentences import TextLayout, split_text
from regard.data.spans import KEPT, find_spans
from regard.documents.elements import MarkupOptions
from regard.documents.markup import AlignedLine, MarkupDocument, parse_markup

_MARK = re.compile(r'<kept-(?:span|part) id="(\d+)"/>|(<[^<>]+>)')


@dataclass(frozen=True)
class ProtectedLine:
    """A line with spans, as XML with a tag or a copy token for each; `lines` are what is to be translated."""

    document: MarkupDocument
    spans: tuple[str, ...]
    copied: Copies
    """The spans that copy characters stand for."""

    @property
    def lines(self) -> tuple[str, ...]:
        return self.document.lines

    @property
    def needs_links(self) -> bool:
        """True if spans are put back by word links, since copy tokens do not stand for all of them."""
        return len(self.copied.spans) < len(self.spans)

    def render(self, translations: Sequence[AlignedLine]) -> str:
        """Return the line with translations in the place of its lines, and each span where its tag stands then."""
        text, parts, end = self.document.render(translations), list[str](), 0
        for match in _MARK.finditer(text):
            parts += [unescape(text[end : match.start()]), match[2] or self.spans[int(match[1])]]
            end = match.end()
        return self.copied.restore("".join([*parts, unescape(text[end:])]))


def protect_line(line: str, sentences: bool = True, copies: str = "") -> ProtectedLine | None:
    """Take the spans out of a line; None if it has none. `sentences`: its sentences are translated by themselves.

    `copies`: the characters of the model's copy tokens. They stand for spans unless these are more, or tags.
    """
    spans = [span for span in find_spans(line) if span.kind in KEPT]
    if not spans:
        return None
    is_copied = [span.kind in COPIED for span in spans]
    free = iter(copies if sum(is_copied) <= len(copies) else "")
    parts, end = list[str](), 0
    copied, around = dict[str, str](), dict[str, tuple[str, str]]()
    for number, span in enumerate(spans):
        text, gap = line[span.start : span.end], line[end : span.start]
        if is_copied[number] and (mark := next(free, "")):
            copied[mark], gap = text, gap.removesuffix(" ")
            around[mark] = line[: span.start][-1:], line[span.end : span.end + 1]
        elif span.kind == "tag" and not text.startswith("<kept-"):
            mark = text
        else:  # texts of a message are translated by themselves
            mark = f'<kept-{"part" if span.kind == "message" else "span"} id="{number}"/>'
        parts += [escape(gap), mark]
        end = span.end
    options = MarkupOptions(sentences=sentences, splitting_tags=frozenset({"kept-part"}))
    document = parse_markup("".join([*parts, escape(line[end:])]), "xml", options)
    return ProtectedLine(document, tuple(line[start:stop] for start, stop, _ in spans), Copies(copied, around))


@dataclass(frozen=True)
class ProtectedText:
    """A plain text whose lines with spans are protected; `parts` are its lines, taken apart further."""

    whole: TextLayout
    parts: tuple[TextLayout | ProtectedLine, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(line for part in self.parts for line in part.lines)

    @property
    def needs_links(self) -> bool:
        """True if spans are put back by word links."""
        return any(isinstance(part, ProtectedLine) and part.needs_links for part in self.parts)

    @property
    def copied(self) -> tuple[Copies, ...]:
        """Of each line the spans that copy characters stand for."""
        return tuple(getattr(part, "copied", Copies()) for part in self.parts for _ in part.lines)

    def render(self, translations: Sequence[AlignedLine]) -> str:
        """Return the text with translations in the place of its lines."""
        rest, texts = iter(translations), list[str]()
        for part in self.parts:
            own = list(islice(rest, len(part.lines)))
            if isinstance(part, ProtectedLine):
                texts.append(part.render(own))
            else:
                texts.append(part.join([line.text for line in own]))
        return self.whole.join(texts)


def protect_text(text: str, sentences: bool, newlines: bool, copies: str = "") -> ProtectedText | None:
    """Take a plain text apart as `split_text` does, and the spans out of its lines; None if it has none."""
    whole = split_text(text, sentences=False, newlines=newlines)
    protected = [(line, protect_line(line, sentences, copies)) for line in whole.lines]
    if not any(part for _, part in protected):
        return None
    return ProtectedText(whole, tuple(part or split_text(line, sentences=sentences) for line, part in protected))
