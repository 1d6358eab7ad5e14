"""HTML and XML pages as documents."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from regard.common.errors import DataError
from regard.data.language_codes import base_language
from regard.data.languages import english_name
from regard.data.sentences import has_letters
from regard.documents.document import (
    Document,
    DocumentOptions,
    DocumentText,
    Edit,
    Slot,
    apply_edits,
    value_slot,
)
from regard.documents.encoding import EncodedText, decode_file
from regard.text.markup.document import arranged_markup
from regard.text.markup.elements import Elements, find_elements
from regard.text.markup.tags import Kind, tokenize
from regard.text.markup.writing import Source
from regard.text.text_format import TranslatedText

_ENCODING = re.compile(
    rb"""<(?:\?xml|meta)\b[^>]*?\b(?:encoding|charset)\s*=\s*["']?\s*([\w.:-]+)""",
    re.IGNORECASE,
)
_LATIN = re.compile("iso-?8859-1|latin-?1|(us-)?ascii", re.IGNORECASE)
"""Names by which pages call Windows-1252, as browsers read them."""
_UNTRANSLATED = re.compile(
    r"""\btranslate\s*=\s*["']?no\b|\bnotranslate\b""", re.IGNORECASE
)
LANGUAGE = re.compile(r"""\s(?:xml:)?lang\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""\s([^\s"'<>/=]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>]+))"""
)
_READ = frozenset(("alt", "title", "placeholder", "aria-label", "aria-description"))
"""Attributes that people read, or hear."""
_DESCRIPTION = re.compile(
    r"""\s(?:name|property)\s*=\s*["']?(?:\w+:)?(?:description|title)["'\s>]""",
    re.IGNORECASE,
)
"""Values of `name` and `property` that make the `content` of a `meta` such an attribute."""
_BUTTON = re.compile(
    r"""<input\s(?:[^>]*\s)?type\s*=\s*["']?(?:submit|reset|button)["'\s/>]""",
    re.IGNORECASE,
)
"""An input whose `value` is the text of a button."""


class HtmlPage(Document):
    """A page: one text, whose lines are its sentences, and those of its attributes that are asked
    for.
    """

    kind: Kind = "html"

    def __init__(self, data: bytes, name: str, options: DocumentOptions) -> None:
        self._source = _decoded(data, name, self.kind)
        text = self._source.text
        tokens = [*tokenize(text, self.kind)]
        elements = find_elements(text, tokens, self.kind, options.markup)
        markup = arranged_markup(Source(text, self.kind), elements, options.markup)
        self._languages = options.languages
        is_asked = options.attributes and self.kind == "html"
        values = tag_values(text, elements) if is_asked else ()
        self._values = [(value.tag, self._slot(value)) for value in values]
        texts = [slot.text for _, slot in self._values]
        page = DocumentText(text, "", markup=markup)
        lines = {
            code: self._source.line_of(start) for code, start in markup.foreign.items()
        }
        notes = foreign_notes(lines, options.languages.source)
        names = {elements.tokens[index].name for index in elements.foreign}
        self.is_foreign = "html" in names or bool(names and not markup.lines)
        super().__init__([page, *texts], notes)

    def _slot(self, value: TagValue) -> Slot:
        """Return the slot of a value in its tag."""
        line = self._source.line_of(value.offset)
        described = DocumentText(value.text, f"{value.name} in line {line}")
        return value_slot(value.start, value.end, described, value.escape)

    def write(self, translations: Sequence[TranslatedText]) -> bytes:
        """Return the translated page."""
        page, *values = translations
        edits = defaultdict[str, list[Edit]](list)
        for (tag, slot), translation in zip(self._values, values, strict=True):
            edits[tag] += slot.edits(translation)
        for tag, edit in self._language_edits():
            edits[tag].append(edit)
        if not any(edits.values()):
            return self._source.encode(page.text)
        return self._source.encode(with_edited_tags(page.text, edits))

    def _language_edits(self) -> Iterator[tuple[str, Edit]]:
        """Yield the edits that name the language of the translation where the page names that of
        the source, each with its tag.
        """
        source, target = self._languages.pair
        if self.kind != "html" or not source or not target:
            return
        text = self._source.text
        tokens = (token for token in tokenize(text, "html") if token.kind == "open")
        for tag in dict.fromkeys(text[token.start : token.end] for token in tokens):
            if "lang" not in tag.lower() or _UNTRANSLATED.search(tag):
                continue
            for match in LANGUAGE.finditer(tag):
                if base_language(match[1]) == base_language(source):
                    yield tag, Edit(*match.span(1), target)


def foreign_notes(lines: Mapping[str, int], source: str) -> Iterator[str]:
    """Yield a sentence about each language that elements declare, and the model does not read, by
    the line in which it comes first. `source`: the language that the model reads.
    """
    for code, line in lines.items():
        yield (
            f"what is marked as {english_name(code)} (`lang`, first in line {line}) stays as it "
            f"is, as the model reads {english_name(source)}; correct the mark if it is wrong"
        )


def with_edited_tags(page: str, edits: Mapping[str, Sequence[Edit]]) -> str:
    """Return a page with edits of its tags, by the tags themselves: they are the same in a
    translation, but may stand elsewhere.
    """
    tags = (page[token.start : token.end] for token in tokenize(page, "html"))
    return "".join(apply_edits(tag, edits.get(tag, ())) for tag in tags)


def _decoded(data: bytes, name: str, kind: Kind) -> EncodedText:
    """Decode a page as it declares; what its encoding lacks is written as references.

    Raises DataError for an encoding that it does not have.
    """
    match = _ENCODING.search(data, 0, 4096)
    declared = match[1].decode() if match else "utf-8"
    is_latin = kind == "html" and _LATIN.fullmatch(declared)
    source = decode_file(data, name, "cp1252" if is_latin else declared)
    with suppress(UnicodeDecodeError):
        if not (source.mark or data.isascii() or data.decode() == source.text):
            raise DataError(
                f"{name}: says that it is {declared}, and is UTF-8; let it say so"
            )
    return replace(source, errors="xmlcharrefreplace")


class XmlPage(HtmlPage):
    """A page in XML, whose attributes all stay."""

    kind = "xml"


class TagValue(NamedTuple):
    """The value of an attribute that people read: the tag, at an offset of its page, and the bounds
    of the value in it.
    """

    tag: str
    offset: int
    name: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The value as people read it."""
        return html.unescape(self.tag[self.start : self.end])

    def escape(self, text: str) -> str:
        """Return another text as the tag writes it; one without quotation marks gets them."""
        quote = "" if self.tag[self.start - 1] in "\"'" else '"'
        return f"{quote}{html.escape(text)}{quote}"


def tag_values(page: str, elements: Elements) -> Iterator[TagValue]:
    """Yield the attributes of a page that people read, those of equal tags once."""
    tags = dict[str, int]()
    foreign = set[str]()
    for index, token in enumerate(elements.tokens):
        tag = page[token.start : token.end]
        if index in elements.foreign:
            foreign.add(tag)
        elif token.kind in ("open", "empty") and "=" in tag:
            tags.setdefault(tag, token.start)
    for tag, offset in tags.items():
        if tag in foreign:
            continue
        is_description = tag[1:5].lower() == "meta" and _DESCRIPTION.search(tag)
        read = _READ | {"content"} if is_description else _READ
        if _BUTTON.match(tag):
            read |= {"value"}
        for match in _ATTRIBUTE.finditer(tag):
            name = match[1].lower()
            value = TagValue(tag, offset, name, *match.span(match.lastindex or 0))
            if name in read and has_letters(value.text):
                yield value
