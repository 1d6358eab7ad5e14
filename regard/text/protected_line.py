"""Protect placeholders, addresses, code and emoji in plain lines, which come back unchanged from
translation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from regard.data.copy_tokens import NOT_COPIED, Copies, with_copies
from regard.data.sentences import TextLayout, split_text
from regard.data.spans import KEPT, Span, find_spans
from regard.data.text import INVISIBLE
from regard.text.aligned_line import AlignedLine

if TYPE_CHECKING:
    from regard.text.markup.document import MarkupDocument
    from regard.text.translation import Translation

MOST_COPIED = 2
"""Maximum number of spans of a line that copy tokens stand for.

If there are more, models leave out most of them, and translate the remaining text less well.
"""
_ELEMENT = re.compile(r"</?[A-Za-z_:]")
"""Beginning of a tag that is one in XML, too."""
_MARK = re.compile(r'<kept-(?:span|part) id="(\d+)"/>|(<[^<>]+>)')


FindSpans = Callable[[str], Sequence[Span]]


def no_spans(_line: str) -> Sequence[Span]:
    """Find nothing."""
    return ()


class CodeSpan(NamedTuple):
    """A span of code; `pair` numbers the pair that it opens or closes, if it does."""

    start: int
    end: int
    kind: str
    pair: int | None = None
    closes: bool = False


def disjoint(spans: Iterable[Span | CodeSpan], length: int) -> list[CodeSpan]:
    """Return spans of a line of this length in order, without those that overlap earlier ones of
    the argument.
    """
    taken = [False] * length
    kept = list[CodeSpan]()
    for span in spans:
        start, end = span[:2]
        if not any(taken[start:end]):
            taken[start:end] = [True] * (end - start)
            kept.append(CodeSpan(*span))
    return sorted(kept, key=lambda code: code.start)


def hidden_spans(
    line: str, own: object, foreign: FindSpans, kinds: Collection[str] = KEPT
) -> list[CodeSpan]:
    """Return the spans of some kinds in a line, and the words that the model cannot read."""
    spans = [span for span in find_spans(line, own) if span.kind in kinds]
    return disjoint([*spans, *foreign(line)], len(line))


@dataclass(frozen=True)
class ProtectedLine:
    """A line with spans, which are replaced by copy tokens, or by tags in XML.

    `lines` are the texts to translate.
    """

    document: TextLayout | MarkupDocument
    spans: Sequence[str] = ()
    copied: Copies = field(default_factory=Copies)
    """The spans that copy characters stand for."""
    pairs: Mapping[str, str] = field(default_factory=dict)
    """The spans that tags of XML stand for."""
    is_apart: bool = False
    """True if the texts between all spans are lines of their own."""

    @property
    def lines(self) -> tuple[str, ...]:
        return self.document.lines

    @property
    def needs_links(self) -> bool:
        """True if word links are needed to put the spans back."""
        return self.is_tagged and not self.is_apart

    @property
    def is_tagged(self) -> bool:
        """True if tags of XML stand for the spans."""
        return not isinstance(self.document, TextLayout)

    def render(self, translations: Sequence[AlignedLine | Translation]) -> str:
        """Return the translated line, with each span in the place of its copy token or tag."""
        if isinstance(self.document, TextLayout):
            text = self.document.join([line.text for line in translations])
            return self.copied.restore(text)

        text = self.document.render(translations)
        parts = list[str]()
        end = 0
        for match in _MARK.finditer(text):
            parts.append(_unescaped(text[end : match.start()]))
            tag = match[2]
            kept = self.pairs.get(tag, tag) if tag else self.spans[int(match[1])]
            parts.append(kept)
            end = match.end()
        return "".join([*parts, _unescaped(text[end:])])


def protect_line(
    line: str,
    copies: str = "",
    own: object = None,
    kinds: Collection[str] = KEPT,
    foreign: FindSpans = no_spans,
) -> ProtectedLine | None:
    """Replace the spans of a line; return None if it has none.

    `copies`: the characters of the model's copy tokens, which replace spans if these are few and no
    tags. `own`: the compiled patterns of a user's spans. `kinds`: the kinds of spans to replace.
    `foreign` finds words that the model cannot read.
    """
    # Models do not read invisible characters; beside a span, one would count as a letter.
    line = INVISIBLE.sub("", line)
    spans = hidden_spans(line, own, foreign, kinds)
    if not spans:
        return None

    may_copy = not any(span.kind in NOT_COPIED for span in spans)
    if may_copy and len(spans) <= min(MOST_COPIED, len(copies)):
        ranges = [(span.start, span.end) for span in spans]
        with_tokens = with_copies(line, [*zip(ranges, copies, strict=False)])
        layout = split_text(with_tokens, sentences=False)
        return ProtectedLine(layout, copied=Copies.of(line, ranges, copies))

    return in_markup(line, spans)


def in_markup(
    line: str, spans: Sequence[CodeSpan], apart: bool = False
) -> ProtectedLine:
    """Replace spans by tags in XML; if they are `apart`, the texts between them are translated by
    themselves.
    """
    # Imported late, since few lines have such spans.
    from regard.text.markup.document import parse_markup
    from regard.text.markup.elements import LINE_TAGS, MarkupOptions
    from regard.text.markup.tags import tag_name

    texts = list[str]()
    parts = list[str]()
    pairs = dict[str, str]()
    end = 0
    for number, (start, stop, kind, pair, closes) in enumerate(spans):
        text = line[start:stop]
        texts.append(text)
        is_element = kind == "tag" and _ELEMENT.match(text)
        name = tag_name(text) if is_element else ""
        # The texts before and after a `kept-part` are translated separately.
        if apart or kind == "message" or name in LINE_TAGS:
            mark = f'<kept-part id="{number}"/>'
        elif pair is not None:
            mark = f"<{'/' * closes}pair-{pair}>"
            pairs[mark] = text
        elif name and not name.startswith("kept-"):
            mark = text
        else:
            mark = f'<kept-span id="{number}"/>'
        parts += [_escaped(line[end:start]), mark]
        end = stop
    parts.append(_escaped(line[end:]))
    options = MarkupOptions(sentences=False, splitting_tags=frozenset({"kept-part"}))
    document = parse_markup("".join(parts), "xml", options, texts)
    return ProtectedLine(document, texts, pairs=pairs, is_apart=apart)


def _escaped(text: str) -> str:
    """Escape a text for XML. The standard library's function would import the modules that read
    URLs.
    """
    return text.replace("&", "&amp;").replace(">", "&gt;").replace("<", "&lt;")


def _unescaped(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
