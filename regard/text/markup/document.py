"""Translation of HTML and XML: the sentences of a marked-up text, and the text with their
translations in their place.

Only the text of sentences is replaced: tags with their attributes, comments, declarations, scripts,
white space and whatever is malformed are kept to the byte, and nothing in attributes is translated.
Tags within a sentence go with the words that they stand at, by word alignments (`projection`), each
tag once.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from regard.common.errors import UsageError
from regard.common.lazy import lazy_pattern
from regard.data.sentence_ends import sentence_ends
from regard.data.sentence_marks import GLUED
from regard.data.sentences import NEWLINE, check_count, has_letters, needs_space
from regard.data.spans import KEPT, find_spans
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
    Mark,
    Piece,
    TaggedSentence,
    build_sentence,
    split_word,
)
from regard.text.markup.tags import Kind, Token, tag_name, tokenize
from regard.text.markup.writing import Source, write_sentence

_ATOM = lazy_pattern(
    r"\s+|(?:[^\s&]|&(?![#\w])|&(?=#\w{20}))+|(?P<entity>&(?:#[0-9A-Za-z]*|\w+);?)"
)
"""White space, words, entities; a number of twenty digits is none of a character."""
_LESS = "&(?:lt|#60|#[xX]3[cC]);"
_GREATER = "&(?:gt|#62|#[xX]3[eE]);"
_ESCAPED_BREAK = lazy_pattern(
    rf"{_LESS}/?(?:{'|'.join(sorted(LINE_TAGS))})(?![\w.:-])(?:[^<>&]|(?!{_LESS}|{_GREATER})&){{0,300}}(?:{_GREATER}|>)",
    re.IGNORECASE,
)
"""An escaped tag that parts text; XML holds the markup of others in this way, but HTML shows it to
its readers.
"""
_MARKS = KEPT - {"message"}
"""Kinds of spans in text that are kept as tags are: tags and entities among them are those that
were escaped.
"""
_XML_ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}
_CLOSING = frozenset(GLUED + ".,;:!?…)]}”’»，、」』）")
_MOST_WORDS, _LONGEST = 8, 60
"""Words and characters of an element kept whole up to which they stand in the line that is
translated.
"""


@dataclass(frozen=True)
class MarkupDocument:
    """A marked-up text, and its sentences that are to be translated.

    `lines` are plain: entities decoded, each run of white space one space, as for every model; no
    line is empty.
    """

    source: Source
    sentences: tuple[TaggedSentence, ...]
    lines: tuple[str, ...]

    def render(self, translations: Sequence[AlignedLine]) -> str:
        """Return the text with translations in the place of its lines. Raises UsageError unless
        each line has one.
        """
        check_count(translations, self.lines)
        parts = list[str]()
        end = 0
        text = self.source.text
        for index, (sentence, translation) in enumerate(
            zip(self.sentences, translations, strict=True)
        ):
            parts.append(text[end : sentence.start])
            texts = [line.text for line in translations[max(0, index - 1) : index + 1]]
            if sentence.follows and needs_space(
                texts, self.lines[index - 1 : index + 1]
            ):
                parts.append(" ")
            parts.append(
                self._render_sentence(sentence, self.lines[index], translation)
            )
            end = sentence.end
        return "".join([*parts, text[end:]])

    def _render_sentence(
        self, sentence: TaggedSentence, line: str, translation: AlignedLine
    ) -> str:
        if translation.text == line:
            return self.source.text[sentence.start : sentence.end]
        units, entries = project(
            sentence, translation.text.split(" "), translation.alignments
        )
        return write_sentence(self.source, sentence, units, entries)


def parse_markup(
    text: str, kind: Kind = "html", options: MarkupOptions | None = None
) -> MarkupDocument:
    """Find the sentences of HTML or XML, fragments too. Takes linear time for any text; malformed
    markup is kept.

    Raises UsageError for another kind.
    """
    if kind not in ("html", "xml"):
        raise UsageError(
            f"markup is of kind html or xml, not {kind!r}; for plain text use split_text"
        )
    options = options or MarkupOptions()
    elements = find_elements(text, list(tokenize(text, kind)), kind, options)
    sentences = tuple(
        sentence
        for paragraph in _paragraphs(text, kind, elements)
        for sentence in paragraph.sentences(options)
    )
    return MarkupDocument(
        Source(text, kind), sentences, tuple(sentence.line for sentence in sentences)
    )


@dataclass
class _Paragraph:
    """Text and marks between two tags that end sentences."""

    text: str
    kind: Kind
    entries: list[Piece | Mark] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    length: int = 0
    word: int = 0
    after_space: bool = False
    opened: list[tuple[int, str]] = field(default_factory=list)
    """The start tags that wait for their end tags: the escaped ones, by their entry and name, and
    elements around.
    """

    def add_text(self, start: int, end: int) -> None:
        """Add text; placeholders, addresses, escaped tags and the like in it are marks, as tags
        are.
        """
        at = start
        decoded, places = _decoded(self.text, start, end, self.kind)
        for span in find_spans(decoded):
            if span.kind in _MARKS:
                first = places[span.start][0] if places else start + span.start
                self._add_plain(at, first)
                at = places[span.end - 1][1] if places else start + span.end
                name = (
                    tag_name(decoded[span.start : span.end])
                    if span.kind == "tag"
                    else ""
                )
                self._add_escaped(first, at, name, decoded[span.start : span.end])
        self._add_plain(at, end)

    def _add_escaped(self, start: int, end: int, name: str, text: str) -> None:
        """Add a span of text as a mark; an escaped end tag and its start tag become an element, if
        they are nested.
        """
        number = len(self.entries)
        mark = Mark(start, end, Role.POINT, -1, -1)
        if name and text.startswith("</"):
            if self.opened and self.opened[-1][1] == name:
                first, _ = self.opened.pop()
                opening = self.entries[first]
                self.entries[first] = Mark(
                    opening.start, opening.end, Role.OPEN, -2 - first, -2 - number
                )
                mark = Mark(start, end, Role.CLOSE, -2 - number, -2 - first)
        elif name and not text.endswith("/>"):
            self.opened.append((number, name))
        self.entries.append(mark)

    def _add_plain(self, start: int, end: int) -> None:
        """Add text with entities; those that cannot be decoded are marks."""
        for match in _ATOM.finditer(self.text, start, end):
            raw = match[0]
            decoded = _decode(raw, self.kind) if match["entity"] else raw
            if decoded.isspace():
                self.after_space = True
            elif decoded:
                self.add_piece(match.start(), match.end(), decoded)
            else:
                self.entries.append(
                    Mark(match.start(), match.end(), Role.POINT, -1, -1)
                )

    def add_piece(self, start: int, end: int, text: str, whole: int = -1) -> None:
        """Add a word or a part of one; a mark of punctuation right after a tag belongs to the word
        before that.
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
        if mark.role is Role.OPEN:
            self.opened.append((-1, ""))
        elif mark.role is Role.CLOSE:
            while self.opened and self.opened.pop()[1]:
                pass  # an escaped start tag in an element has no end tag outside of it
        self.after_space |= mark.role is Role.VISIBLE

    def sentences(self, options: MarkupOptions) -> Iterator[TaggedSentence]:
        """Yield the sentences that have anything to translate, with the tags that stand in them."""
        if not has_letters(plain := "".join(self.parts)):
            return
        entries, numbers = _cut(
            self.entries,
            _outside_whole(
                sentence_ends(plain) if options.sentences else (), self.entries
            ),
        )
        bounds = _bounds(numbers)
        tags = {
            entry.token: index
            for index, entry in enumerate(entries)
            if isinstance(entry, Mark)
        }
        end = -1  # of the sentence before, in the plain paragraph
        for number, (first, last) in enumerate(bounds):
            pieces = [
                entry for entry in entries[first : last + 1] if isinstance(entry, Piece)
            ]
            follows = end == pieces[0].offset
            end = -1
            if any(piece.whole < 0 and has_letters(piece.text) for piece in pieces):
                low = bounds[number - 1][1] + 1 if number else 0
                high = (
                    bounds[number + 1][0] - 1
                    if number + 1 < len(bounds)
                    else len(entries) - 1
                )
                start, stop = _with_tags(entries, tags, (low, first, last, high))
                end = pieces[-1].offset + len(pieces[-1].text)
                yield build_sentence(
                    entries[start : stop + 1], plain[pieces[0].offset : end], follows
                )


def _decode(entity: str, kind: Kind) -> str:
    """Decode an entity: empty if it stands for no known text, unchanged if it is none."""
    if kind == "xml" and entity[1] != "#":
        return _XML_ENTITIES.get(entity, "" if entity[-1] == ";" else entity)
    decoded = html.unescape(entity)
    if kind == "xml" and decoded == entity and entity[-1] == ";":
        return ""
    is_mixed = any(map(str.isspace, decoded)) and not decoded.isspace()
    return "" if is_mixed else decoded


def _decoded(
    text: str, start: int, end: int, kind: Kind
) -> tuple[str, Sequence[tuple[int, int]]]:
    """Decode the entities of text, as its readers see it; also return where each character stands
    in the markup.

    Nothing, if there are no entities: each then stands where it is.
    """
    if "&" not in text[start:end]:
        return text[start:end], ()
    parts = list[str]()
    places = list[tuple[int, int]]()
    for match in _ATOM.finditer(text, start, end):
        raw = match[0]
        decoded = _decode(raw, kind) if match["entity"] else raw
        if decoded == raw:
            places += [(index, index + 1) for index in range(*match.span())]
        else:
            decoded = decoded or raw
            places += [match.span()] * len(decoded)
        parts.append(decoded)
    return "".join(parts), places


def _lines(
    text: str, kind: Kind, token: Token, role: Role
) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that are translated by themselves: between line breaks, or breaks
    of escaped XML.
    """
    patterns = [NEWLINE] if role is Role.LINES else []
    patterns += [_ESCAPED_BREAK] if kind == "xml" else []
    start = token.start
    for first, last in sorted(
        match.span()
        for each in patterns
        for match in each.finditer(text, start, token.end)
    ):
        yield start, first
        start = last
    yield start, token.end


def _paragraphs(text: str, kind: Kind, elements: Elements) -> Iterator[_Paragraph]:
    """Yield what stands between tags that end sentences."""
    paragraph = _Paragraph(text, kind)
    index = 0
    tokens = elements.tokens
    while index < len(tokens):
        token = tokens[index]
        role = elements.roles[index]
        partner = elements.partners[index]
        if role in (Role.BREAK, Role.SKIP):
            yield paragraph
            paragraph = _Paragraph(text, kind)
        elif role in (Role.TEXT, Role.LINES):
            for number, (start, end) in enumerate(_lines(text, kind, token, role)):
                if number:
                    yield paragraph
                    paragraph = _Paragraph(text, kind)
                paragraph.add_text(start, end)
        elif role in (Role.UNIT, Role.SEALED, Role.FIGURE, Role.OPEN) and _add_whole(
            paragraph, elements, index
        ):
            index = partner
        else:
            paragraph.add_mark(Mark(token.start, token.end, role, index, partner))
        index += 1
    yield paragraph


def _add_whole(paragraph: _Paragraph, elements: Elements, index: int) -> bool:
    """Add an element that is kept whole or has no letters, as words or as a mark; return whether it
    is one of these.
    """
    partner = elements.partners[index]
    role = elements.roles[index]
    name = elements.tokens[index].name
    start = elements.tokens[index].start
    end = elements.tokens[partner].end
    inside = _Paragraph(paragraph.text, paragraph.kind)
    is_short = role in (Role.UNIT, Role.OPEN) and end - start < 20 * _LONGEST
    for token in elements.tokens[index + 1 : partner] if is_short else ():
        if token.kind == "text":
            inside.add_text(token.start, token.end)
    plain = "".join(inside.parts)
    if role is Role.OPEN and (
        not is_short
        or has_letters(plain)
        or Role.BREAK in elements.roles[index:partner]
    ):
        return False
    words = plain.split()
    is_followed = paragraph.text[end : end + 1].isalnum()
    before = (
        paragraph.parts[-1][-1] if paragraph.parts and not paragraph.after_space else ""
    )
    is_glued = (
        name != "sub" and not is_followed and (before.isalnum() or before in _CLOSING)
    )
    is_note = (
        name == "sup"
        or plain[:1] == "["
        or is_glued
        or not any(map(str.isdecimal, plain))
    )
    # It may end a sentence, so a model has to see it.
    is_punctuation = bool(plain) and not split_word(plain)[1]
    is_sign = is_note and not is_punctuation and not has_letters(plain)
    if is_sign or len(words) > _MOST_WORDS or inside.length > _LONGEST:
        is_visible = (
            role is Role.FIGURE or inside.after_space or (plain and is_followed)
        )
        paragraph.add_mark(
            Mark(start, end, Role.VISIBLE if is_visible else Role.POINT, index, -1)
        )
        return True
    for number, word in enumerate(words):
        paragraph.after_space |= number > 0
        paragraph.add_piece(start, end, word, index)
    return True


def _cut(
    entries: Sequence[Piece | Mark], ends: Sequence[int]
) -> tuple[list[Piece | Mark], list[int]]:
    """Cut pieces at the ends of sentences; also return the number of each entry's sentence, -1 for
    marks.
    """
    cut = list[Piece | Mark]()
    numbers = list[int]()
    number = 0
    for entry in entries:
        if isinstance(entry, Mark):
            cut.append(entry)
            numbers.append(-1)
            continue
        while number < len(ends) and ends[number] <= entry.offset:
            number += 1
        rest = entry
        is_plain = entry.whole < 0 and len(entry.text) == entry.end - entry.start
        while (
            number < len(ends)
            and ends[number] < rest.offset + len(rest.text)
            and is_plain
        ):
            size = ends[number] - rest.offset
            cut.append(rest._replace(end=rest.start + size, text=rest.text[:size]))
            numbers.append(number)
            rest = rest._replace(
                start=rest.start + size,
                text=rest.text[size:],
                offset=rest.offset + size,
            )
            number += 1
        cut.append(rest)
        numbers.append(number)
    return cut, numbers


def _outside_whole(ends: Iterable[int], entries: Sequence[Piece | Mark]) -> list[int]:
    """Leave out ends of sentences inside of elements that are kept whole."""
    spans = dict[int, tuple[int, int]]()
    for entry in entries:
        if isinstance(entry, Piece) and entry.whole >= 0:
            start = spans.get(entry.whole, (entry.offset, 0))[0]
            spans[entry.whole] = (start, entry.offset + len(entry.text))
    starts = [start for start, _ in spans.values()]
    stops = [0, *(stop for _, stop in spans.values())]
    return [end for end in ends if end >= stops[bisect_left(starts, end)]]


def _bounds(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the indices of the first and last piece of each sentence."""
    pieces = (index for index, number in enumerate(numbers) if number >= 0)
    groups = ([*group] for _, group in groupby(pieces, numbers.__getitem__))
    return [(group[0], group[-1]) for group in groups]


def _with_tags(
    entries: Sequence[Piece | Mark],
    tags: dict[int, int],
    window: tuple[int, int, int, int],
) -> tuple[int, int]:
    """Widen a sentence by tags beside it whose other tag is in it; those of its neighbours are out
    of the window.
    """
    low, first, last, high = window
    start = first
    stop = last
    for entry in entries[first : last + 1]:
        if isinstance(entry, Mark) and entry.role in (Role.OPEN, Role.CLOSE):
            partner = tags.get(entry.partner, -1)
            if low <= partner < start:
                start = partner
            elif stop < partner <= high:
                stop = partner
    return start, stop
