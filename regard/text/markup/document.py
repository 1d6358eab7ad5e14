"""Translate HTML and XML: find the sentences of a marked-up text, and put translations in their
place.

Only the text of sentences is replaced. Tags with their attributes, comments, declarations, scripts,
white space and malformed markup are kept to the byte, and nothing in attributes is translated. Tags
within a sentence follow the words beside them by word alignments (`projection`), each tag once.
"""

from __future__ import annotations

import html
import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from regard.common.errors import UsageError
from regard.common.lazy import lazy_pattern
from regard.data.sentence_ends import sentence_ends
from regard.data.sentence_marks import GLUED
from regard.data.sentences import (
    NEWLINE,
    check_count,
    has_letters,
    needs_space,
    replaces_letter,
)
from regard.data.spans import KEPT, find_spans, may_have_spans
from regard.text.aligned_line import AlignedLine
from regard.text.markup.elements import (
    LINE_TAGS,
    Elements,
    MarkupOptions,
    Role,
    find_elements,
)
from regard.text.markup.projection import project
from regard.text.markup.tagged_sentence import (
    Entries,
    Mark,
    Piece,
    TaggedSentence,
    build_sentence,
    split_word,
)
from regard.text.markup.tags import Bounds, Kind, Token, tag_name, tokenize
from regard.text.markup.writing import Source, write_sentence

if TYPE_CHECKING:
    from regard.text.translation import Translation

_ATOM = lazy_pattern(
    r"\s+|(?:[^\s&]|&(?![#\w])|&(?=#\w{20}))+|(?P<entity>&(?:#[0-9A-Za-z]*|\w+);?)"
)
"""Match white space, a word or an entity; an entity with twenty digits stands for no character."""
_LESS = "&(?:lt|#60|#[xX]3[cC]);"
_GREATER = "&(?:gt|#62|#[xX]3[eE]);"
_ESCAPED_BREAK = lazy_pattern(
    rf"{_LESS}/?(?:{'|'.join(sorted(LINE_TAGS))})(?![\w.:-])(?:[^<>&]|(?!{_LESS}|{_GREATER})&){{0,300}}(?:{_GREATER}|>)",
    re.IGNORECASE,
)
"""An escaped tag that ends a line of text.

XML carries the markup of other formats escaped; in HTML an escaped tag is shown to the reader.
"""
_MARKS = KEPT - {"message"}
"""Kinds of spans in text that are kept like tags; a tag or entity among them was escaped in the
source.
"""
_XML_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}
TAG = "\u2060"
"""Character that stands for a tag, a comment or the like in `MarkupDocument.read`."""
_UNDIVIDED = MarkupOptions(sentences=False, mark_spans=False)
_CLOSING = frozenset(GLUED + ".,;:!?…)]}”’»，、」』）")
_COLONS = (":", "：")
_ITEM = lazy_pattern(
    r"(?:\(?\d{1,3}(?:\.\d{1,3})*[.)]|[가나다라마바사아자차카타파하][.)]|[•·*–—①-⑳※-])(?=\s)"
)
_LABEL = lazy_pattern(
    r"[^\W\d_][\w'’-]*(?:\s[\w'’-]+)?[:：](?=\s+[^\W_]+\s)(?!\s+[a-z])"
)
"""A word or two with a colon before a text, such as Note:"""
_SEPARATORS = "|/·•←→"
_SIGNS = (
    "[\u2190-\u21ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff\ufe0f\u200d]{1,9}"
)
_WORDS_QUOTED = rf"(?:(?!\s[{_SEPARATORS}]\s)[^«»‹›])*"
_SEPARATOR = lazy_pattern(
    rf"(?P<quoted>«{_WORDS_QUOTED}»|»{_WORDS_QUOTED}«|‹{_WORDS_QUOTED}›|›{_WORDS_QUOTED}‹)"
    rf"|(?<!\S)[{_SEPARATORS}«»‹›](?!\S)|^{_SIGNS}(?=\s)|(?<=\s){_SIGNS}$"
)
"""A quotation; or a sign between texts, as in menus, or at either end, as of links to other pages,
also an emoji there.
"""
_SIGN = lazy_pattern(r"[^\w\s<&]{1,3}|&(?!nbsp)\w{2,8};")
"""Signs between two elements kept whole that are kept with them."""
_BRACKETS = lazy_pattern(r"\([^()]*\)$")
_IN_BRACKETS = lazy_pattern(r"\(([^()]*)\)[.!?]?")
_MOST_WORDS, _LONGEST = 8, 60
"""Maximum number of words and characters of an element kept whole that is part of the line to
translate.
"""


class MarkedSpan(NamedTuple):
    """A span of a line that is kept like a tag, between two offsets.

    `name`: that of the pair that it opens or, if it `closes`, ends; empty if it stands by itself.
    `divides`: the texts before and after it are translated separately.
    """

    start: int
    end: int
    name: str = ""
    closes: bool = False
    divides: bool = False


@dataclass(frozen=True)
class MarkupDocument:
    """A marked-up text and its sentences to translate.

    `lines` are plain text: entities are decoded, and each run of white space is one space. No line
    is empty. `start` and `end` are the bounds of the text in its source. `foreign`: where its first
    element in each other language than the source's begins.
    """

    source: Source
    sentences: tuple[TaggedSentence, ...]
    lines: tuple[str, ...]
    start: int = 0
    end: int = sys.maxsize
    foreign: Mapping[str, int] = field(default_factory=dict)

    def read(self, text: str) -> str:
        """Return markup of the kind of this text as plain text, with `TAG` for each tag."""
        kind = self.source.kind
        parts = [
            _decoded(text, token.start, token.end, kind)[0]
            if token.kind == "text"
            else TAG
            for token in tokenize(text, kind)
        ]
        return " ".join("".join(parts).split())

    def within(
        self, sentence: TaggedSentence, spans: Sequence[MarkedSpan], apart: bool
    ) -> MarkupDocument:
        """Return a sentence as a text with some spans of its line as marks.

        `apart`: the texts between all marks and elements kept whole are translated separately.
        """
        new_paragraph = partial(
            _Paragraph, self.source.text, self.source.kind, mark_spans=False
        )
        paragraphs = [new_paragraph()]
        word = -1
        previous: MarkedSpan | None = None
        for entry, span in _with_spans(sentence, spans):
            paragraph = paragraphs[-1]
            if apart and (isinstance(entry, Mark) or entry.whole >= 0 or span):
                paragraphs.append(new_paragraph())
            elif isinstance(entry, Mark):
                paragraph.add_mark(entry)
            else:
                paragraph.after_space |= entry.word != word
                word = entry.word
                if not span:
                    paragraph.add_piece(*entry[:3], entry.whole)
                elif span.divides:
                    paragraphs.append(new_paragraph())
                elif span is previous:
                    paragraph.entries[-1] = paragraph.entries[-1]._replace(
                        end=entry.end
                    )
                else:
                    paragraph.add_span(entry.start, entry.end, span.name, span.closes)
            previous = span
        return _document(
            self.source, paragraphs, _UNDIVIDED, (sentence.start, sentence.end)
        )

    def render(self, translations: Sequence[AlignedLine | Translation]) -> str:
        """Return the text with each line replaced by its translation.

        Raises UsageError unless each line has one.
        """
        check_count(translations, self.lines)
        text = self.source.text
        limits = [sentence.start for sentence in self.sentences[1:]]
        limits.append(min(self.end, len(text)))
        parts = list[str]()
        end = self.start
        triples = zip(self.sentences, translations, limits, strict=False)
        for index, (sentence, translation, limit) in enumerate(triples):
            parts.append(text[end : sentence.start])
            texts = [line.text for line in translations[max(0, index - 1) : index + 1]]
            lines = self.lines[index - 1 : index + 1]
            if sentence.follows and needs_space(texts, lines):
                parts.append(" ")
            rendered = self._render_sentence(sentence, translation)
            before, behind = self._spaces(sentence, translation.text, end, limit)
            parts += [before, rendered, behind]
            end = sentence.end
        return "".join([*parts, text[end : self.end]])

    def _spaces(
        self, sentence: TaggedSentence, translation: str, start: int, end: int
    ) -> tuple[str, str]:
        """Return the spaces that part the translation of a line from the code before and behind it,
        up to the offsets at which other sentences end and begin. In XML, any tag may stand between
        columns, unless texts are divided at code.
        """
        is_divided = self.end < sys.maxsize or self.source.spans
        line = sentence.line
        if translation == line or (self.source.kind == "xml" and not is_divided):
            return "", ""
        edge = self.source.edge_before(sentence.start, start)
        left = replaces_letter(edge, translation[:1], line[0], True)
        edge = self.source.edge_behind(sentence.end, end)
        right = replaces_letter(edge, translation[-1:], line[-1], False)
        return " " * left, " " * right

    def _render_sentence(
        self, sentence: TaggedSentence, translation: AlignedLine | Translation
    ) -> str:
        if translation.markup is not None:
            return translation.markup
        if translation.text == sentence.line:
            return self.source.text[sentence.start : sentence.end]
        words = translation.text.split(" ")
        units, entries = project(sentence, words, translation.alignments)
        return write_sentence(self.source, sentence, units, entries)


def parse_markup(
    text: str,
    kind: Kind = "html",
    options: MarkupOptions | None = None,
    spans: Sequence[str] = (),
) -> MarkupDocument:
    """Find the sentences of HTML or XML, also of fragments, in linear time. Malformed markup is
    kept. `spans`: the code that its tags `kept-span` and `kept-part` stand for.

    Raises UsageError for another kind.
    """
    if kind not in ("html", "xml"):
        raise UsageError(
            f"markup is of kind html or xml, not {kind!r}; for plain text use split_text"
        )
    options = options or MarkupOptions()
    elements = find_elements(text, list(tokenize(text, kind)), kind, options)
    return arranged_markup(Source(text, kind, spans), elements, options)


def arranged_markup(
    source: Source, elements: Elements, options: MarkupOptions
) -> MarkupDocument:
    """Find the sentences of a text whose elements and their roles are known."""
    paragraphs = _paragraphs(source.text, source.kind, elements, options.mark_spans)
    return _document(source, paragraphs, options, foreign=elements.foreign_starts)


def _document(
    source: Source,
    paragraphs: Iterable[_Paragraph],
    options: MarkupOptions,
    bounds: Bounds = (0, sys.maxsize),
    foreign: Mapping[str, int] | None = None,
) -> MarkupDocument:
    sentences = tuple(
        sentence
        for paragraph in paragraphs
        for sentence in paragraph.sentences(options)
    )
    lines = tuple(sentence.line for sentence in sentences)
    return MarkupDocument(source, sentences, lines, *bounds, foreign or {})


@dataclass
class _Paragraph:
    """Text and marks between two tags that end sentences.

    With `mark_spans`, placeholders, addresses, escaped tags and the like are marks, as tags are.
    """

    text: str
    kind: Kind
    mark_spans: bool = True
    entries: list[Piece | Mark] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    length: int = 0
    word: int = 0
    after_space: bool = False
    opened: list[tuple[int, str]] = field(default_factory=list)
    """Start tags that wait for their end tags: the entry and name of an escaped tag, (-1, "") of a
    real one.
    """

    def add_text(self, start: int, end: int) -> None:
        """Add text, and what in it becomes a mark."""
        if not self.mark_spans:
            self._add_plain(start, end)
            return
        stop = start
        decoded, offsets = _decoded(self.text, start, end, self.kind)
        for span in find_spans(decoded):
            if span.kind not in _MARKS:
                continue
            first = offsets[span.start][0] if offsets else start + span.start
            self._add_plain(stop, first)
            stop = offsets[span.end - 1][1] if offsets else start + span.end
            span_text = decoded[span.start : span.end]
            is_tag = span.kind == "tag" and not span_text.endswith("/>")
            name = tag_name(span_text) if is_tag else ""
            self.add_span(first, stop, name, span_text.startswith("</"))
        self._add_plain(stop, end)

    def add_span(self, start: int, end: int, name: str, closes: bool) -> None:
        """Add a span of text as a mark; a nested pair of spans becomes an element."""
        mark = Mark(start, end, "point", -1, -1)
        # The tokens of tags are positive, those of spans negative.
        token = -2 - start
        if closes and name:
            if self.opened and self.opened[-1][1] == name:
                first, _ = self.opened.pop()
                opening = self.entries[first]
                partner = -2 - opening.start
                self.entries[first] = Mark(
                    opening.start, opening.end, "open", partner, token
                )
                mark = Mark(start, end, "close", token, partner)
        elif name:
            self.opened.append((len(self.entries), name))
        self.entries.append(mark)

    def _add_plain(self, start: int, end: int) -> None:
        """Add text with entities; an entity that cannot be decoded becomes a mark."""
        for match in _ATOM.finditer(self.text, start, end):
            raw = match[0]
            decoded = _decode(raw, self.kind) if match["entity"] else raw
            if decoded.isspace():
                self.after_space = True
            elif decoded:
                self.add_piece(match.start(), match.end(), decoded)
            else:
                self.entries.append(Mark(match.start(), match.end(), "point", -1, -1))

    def add_piece(self, start: int, end: int, text: str, whole: int = -1) -> None:
        """Add a word or a part of one. Closing punctuation right after a tag is joined to the
        preceding word.
        """
        follows_mark = (
            self.entries
            and isinstance(self.entries[-1], Mark)
            and self.entries[-1].end == start
        )
        is_closing = follows_mark and text[0] in _CLOSING and not split_word(text)[1]
        if self.after_space and self.length and not is_closing:
            self.parts.append(" ")
            self.length += 1
            self.word += 1
        self.after_space = False
        self.entries.append(Piece(start, end, text, self.word, self.length, whole))
        self.parts.append(text)
        self.length += len(text)

    def add_mark(self, mark: Mark) -> None:
        """Add a tag or the like."""
        self.entries.append(mark)
        if mark.role == "open":
            self.opened.append((-1, ""))
        elif mark.role == "close":
            # An escaped start tag inside of an element has no end tag outside of it.
            while self.opened and self.opened.pop()[1]:
                pass
        self.after_space |= mark.role == "visible"

    def _label_ends(self, plain: str) -> Iterator[int]:
        """Yield the end of an element at the beginning whose text ends in a colon, such as
        <b>Note:</b>, or that a colon follows.
        """
        outer = set[int]()
        end = 0
        for entry in self.entries:
            if isinstance(entry, Piece):
                end = entry.offset + len(entry.text)
            elif entry.role == "open" and not end:
                outer.add(entry.token)
            elif entry.role == "close" and entry.partner in outer and end:
                stop = end + (plain[end : end + 1] in _COLONS)
                if plain[stop - 1] in _COLONS:
                    yield stop

    def sentences(self, options: MarkupOptions) -> Iterator[TaggedSentence]:
        """Yield the sentences that have anything to translate, with the tags that stand in them."""
        plain = "".join(self.parts)
        if not has_letters(plain):
            return
        ends: Iterable[int] = sentence_ends(plain) if options.sentences else ()
        if options.sentences and not self.mark_spans:
            ends = _outside_spans(ends, plain)
        if options.sentences:
            ends = sorted({*ends, *_separated(plain), *self._label_ends(plain)})
        cut = _cut(self.entries, _outside_whole(ends, self.entries))
        entries = [entry for entry, _ in cut]
        bounds = _bounds([number for _, number in cut])
        tags = {
            entry.token: index
            for index, entry in enumerate(entries)
            if isinstance(entry, Mark)
        }

        item = _ITEM.match(plain) if options.sentences else None
        previous_end = -1  # in `plain`; -1 if the preceding sentence was left out
        for number, (first, last) in enumerate(bounds):
            pieces = [
                entry for entry in entries[first : last + 1] if isinstance(entry, Piece)
            ]
            follows = previous_end == pieces[0].offset
            previous_end = -1
            end = pieces[-1].offset + len(pieces[-1].text)
            is_item = item is not None and end <= item.end()
            if is_item or not any(
                piece.whole < 0 and has_letters(piece.text) for piece in pieces
            ):
                continue

            is_last = number + 1 == len(bounds)
            low = bounds[number - 1][1] + 1 if number else 0
            high = len(entries) - 1 if is_last else bounds[number + 1][0] - 1
            start, stop = _with_tags(entries, tags, (low, first, last, high))
            line = plain[pieces[0].offset : end]
            previous_end = end
            yield build_sentence(entries[start : stop + 1], line, follows)


def _decode(entity: str, kind: Kind) -> str:
    """Decode an entity: empty if it stands for no known text, unchanged if it is not an entity."""
    if kind == "xml" and entity[1] != "#":
        return _XML_ENTITIES.get(entity, "" if entity[-1] == ";" else entity)
    decoded = html.unescape(entity)
    if kind == "xml" and decoded == entity and entity[-1] == ";":
        return ""
    is_mixed = any(map(str.isspace, decoded)) and not decoded.isspace()
    return "" if is_mixed else decoded


def _decoded(
    text: str, start: int, end: int, kind: Kind
) -> tuple[str, Sequence[Bounds]]:
    """Decode the entities of text; also return the start and end of each character in the markup.

    The offsets are empty if there are no entities, as the characters then stand in the markup
    unchanged.
    """
    if "&" not in text[start:end]:
        return text[start:end], ()
    parts = list[str]()
    offsets = list[Bounds]()
    for match in _ATOM.finditer(text, start, end):
        raw = match[0]
        decoded = _decode(raw, kind) if match["entity"] else raw
        if decoded == raw:
            offsets += [(index, index + 1) for index in range(*match.span())]
        else:
            decoded = decoded or raw
            offsets += [match.span()] * len(decoded)
        parts.append(decoded)
    return "".join(parts), offsets


def _lines(text: str, kind: Kind, token: Token, role: Role) -> list[Bounds]:
    """Return the start and end of each part of a text token that is translated by itself.

    Line breaks part text in the role LINES; escaped tags that end lines part the text of XML.
    """
    breaks = list[Bounds]()
    if role == "lines":
        breaks += [m.span() for m in NEWLINE.finditer(text, token.start, token.end)]
    if kind == "xml" and "&" in text[token.start : token.end]:
        matches = _ESCAPED_BREAK.finditer(text, token.start, token.end)
        breaks += [match.span() for match in matches]

    bounds = [token.start, token.end]
    for first, last in sorted(breaks):
        bounds[-1:] = [first, last, token.end]
    return [*zip(bounds[::2], bounds[1::2], strict=True)]


def _paragraphs(
    text: str, kind: Kind, elements: Elements, mark_spans: bool
) -> Iterator[_Paragraph]:
    """Yield the paragraphs of a text: the text and marks between tags that end sentences."""
    new_paragraph = partial(_Paragraph, text, kind, mark_spans)
    paragraph = new_paragraph()
    index = 0
    tokens = elements.tokens
    while index < len(tokens):
        token = tokens[index]
        role = elements.roles[index]
        partner = elements.partners[index]
        if role in ("break", "skip"):
            yield paragraph
            paragraph = new_paragraph()
        elif role in ("text", "lines"):
            for number, (start, end) in enumerate(_lines(text, kind, token, role)):
                if number:
                    yield paragraph
                    paragraph = new_paragraph()
                paragraph.add_text(start, end)
        else:
            is_element = role in ("unit", "sealed", "figure", "open")
            last = _add_whole(paragraph, elements, index) if is_element else -1
            if last < 0:
                mark = Mark(token.start, token.end, role, index, partner)
                paragraph.add_mark(mark)
            index = max(index, last)
        index += 1
    yield paragraph


def _glued(text: str, elements: Elements, index: int) -> int:
    """Return the last token of an element, or of the last of those that are kept and that nothing
    but signs part from it, such as the keys in Ctrl+S.
    """
    last = elements.partners[index]
    while elements.roles[index] == "unit" and last + 2 < len(elements.tokens):
        sign, following = elements.tokens[last + 1 : last + 3]
        is_glued = elements.roles[last + 2] == "unit" and following.kind == "open"
        if not is_glued or not _SIGN.fullmatch(text, sign.start, sign.end):
            break
        last = elements.partners[last + 2]
    return last


def _add_whole(paragraph: _Paragraph, elements: Elements, index: int) -> int:
    """Add an element that is kept whole or has no letters, as words or as a mark; return the last
    token of it and what is kept with it.

    Returns -1, and adds nothing, for an element whose content is translated.
    """
    role = elements.roles[index]
    last = _glued(paragraph.text, elements, index)
    start = elements.tokens[index].start
    end = elements.tokens[last].end
    content = _Paragraph(paragraph.text, paragraph.kind)
    is_short = role in ("unit", "open") and end - start < 20 * _LONGEST
    if is_short:
        for token in elements.tokens[index + 1 : last]:
            if token.kind == "text":
                content.add_text(token.start, token.end)
    plain = "".join(content.parts)
    if role == "open":
        has_break = "break" in elements.roles[index:last]
        if not is_short or has_break or has_letters(plain):
            return -1

    words = plain.split()
    is_followed = paragraph.text[end : end + 1].isalnum()
    is_note = _is_note(paragraph, elements.tokens[index].name, plain, is_followed)
    # Punctuation may end a sentence, so a model has to see it.
    is_punctuation = bool(plain) and not split_word(plain)[1]
    is_sign = is_note and not is_punctuation and not has_letters(plain)
    if is_sign or len(words) > _MOST_WORDS or content.length > _LONGEST:
        is_visible = role == "figure" or content.after_space or (plain and is_followed)
        mark_role: Role = "visible" if is_visible else "point"
        paragraph.add_mark(Mark(start, end, mark_role, index, -1))
        return last

    for number, word in enumerate(words):
        paragraph.after_space |= number > 0
        paragraph.add_piece(start, end, word, index)
    return last


def _is_note(paragraph: _Paragraph, name: str, plain: str, is_followed: bool) -> bool:
    """Return whether an element without letters looks like the mark of a footnote, or has no digit.

    The mark of a footnote is superscript, in brackets, or attached to the preceding word only.
    """
    if name == "sup" or plain.startswith("["):
        return True
    before = ""
    if paragraph.parts and not paragraph.after_space:
        before = paragraph.parts[-1][-1]
    is_attached = before.isalnum() or before in _CLOSING
    if name != "sub" and not is_followed and is_attached:
        return True
    return not any(map(str.isdecimal, plain))


def _cut(entries: Entries, ends: Sequence[int]) -> list[tuple[Piece | Mark, int]]:
    """Cut pieces at the ends of sentences; return each entry with the number of its sentence, marks
    with -1.
    """
    cut = list[tuple[Piece | Mark, int]]()
    for entry in entries:
        if isinstance(entry, Mark):
            cut.append((entry, -1))
            continue
        piece = entry
        number = bisect_right(ends, piece.offset)
        stop = bisect_left(ends, piece.offset + len(piece.text))
        is_plain = piece.whole < 0 and len(piece.text) == piece.end - piece.start
        for end in ends[number:stop] if is_plain else ():
            size = end - piece.offset
            middle = piece.start + size
            cut.append((piece._replace(end=middle, text=piece.text[:size]), number))
            piece = piece._replace(start=middle, text=piece.text[size:], offset=end)
            number += 1
        cut.append((piece, number))
    return cut


def _separated(plain: str) -> Iterator[int]:
    """Yield the ends of the number or sign of an item and of a label, and the bounds of signs
    between texts, and of brackets around all of the text, or around no words.
    """
    item = _ITEM.match(plain)
    if item:
        yield item.end()
    label = _LABEL.match(plain)
    if label:
        yield label.end()
    for match in _SEPARATOR.finditer(plain):
        if not match["quoted"]:
            yield from match.span()
    brackets = _BRACKETS.search(plain)
    if brackets and not has_letters(brackets[0]):
        yield brackets.start()
    enclosed = _IN_BRACKETS.fullmatch(plain)
    if enclosed:
        yield from enclosed.span(1)


def _outside_whole(ends: Iterable[int], entries: Entries) -> list[int]:
    """Return the sentence ends that are not inside of an element kept whole."""
    spans = dict[int, Bounds]()
    for entry in entries:
        if isinstance(entry, Piece) and entry.whole >= 0:
            start = spans.get(entry.whole, (entry.offset, 0))[0]
            spans[entry.whole] = (start, entry.offset + len(entry.text))
    return _outside(ends, [*spans.values()])


def _outside_spans(ends: Iterable[int], plain: str) -> Sequence[int]:
    """Return the sentence ends that are not inside of code. A message with its texts is code."""
    ends = [*ends]
    has_one_sentence = not ends or ends[0] >= len(plain)
    if has_one_sentence or not may_have_spans(plain):
        return ends
    # Imported late, since most texts have no code.
    from regard.contracts.dialects import get_dialect
    from regard.contracts.messages import syntax
    from regard.contracts.recognise import recognise
    from regard.contracts.spans import scan

    spans = find_spans(plain)
    rules = get_dialect(recognise([plain]))
    has_branches = any(divides for _, _, divides in syntax(plain, rules))
    if has_branches or any(span.kind == "message" for span in spans):
        return ()
    outside = _outside(ends, [(span.start, span.end) for span in spans])
    return _outside(outside, [(span.start, span.end) for span in scan(plain, rules)])


def _outside(ends: Iterable[int], ranges: Sequence[Bounds]) -> list[int]:
    """Return the offsets that are not inside of ranges, which are in order."""
    starts = [start for start, _ in ranges]
    stops = [0, *(stop for _, stop in ranges)]
    return [end for end in ends if end >= stops[bisect_left(starts, end)]]


def _with_spans(
    sentence: TaggedSentence, spans: Sequence[MarkedSpan]
) -> Iterator[tuple[Piece | Mark, MarkedSpan | None]]:
    """Yield the marks and pieces of a sentence, cut at the bounds of spans, with the span of each
    piece. Elements kept whole have none.
    """
    first = next(entry.offset for entry in sentence.entries if isinstance(entry, Piece))
    bounds = sorted({first + offset for span in spans for offset in span[:2]})
    by_start = {first + span.start: span for span in spans}
    for entry, number in _cut(sentence.entries, bounds):
        is_inside = isinstance(entry, Piece) and entry.whole < 0 < number
        yield entry, by_start.get(bounds[number - 1]) if is_inside else None


def _bounds(numbers: Sequence[int]) -> list[Bounds]:
    """Return the indices of the first and last piece of each sentence."""
    pieces = (index for index, number in enumerate(numbers) if number >= 0)
    groups = ([*group] for _, group in groupby(pieces, numbers.__getitem__))
    return [(group[0], group[-1]) for group in groups]


def _with_tags(
    entries: Entries,
    tags: dict[int, int],
    window: tuple[int, int, int, int],
) -> Bounds:
    """Widen a sentence by the tags beside it whose partner is in it.

    `window` holds the first entry after the preceding sentence, the first and last entry of this
    one, and the last entry before the following sentence.
    """
    low, first, last, high = window
    start = first
    stop = last
    for entry in entries[first : last + 1]:
        if isinstance(entry, Mark) and entry.role in ("open", "close"):
            partner = tags.get(entry.partner, -1)
            if low <= partner < start:
                start = partner
            elif stop < partner <= high:
                stop = partner
    return start, stop
