"""HTML and XML pages as documents."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from regard.common.errors import DataError
from regard.data.language_codes import base_language
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
from regard.text.markup.document import parse_markup
from regard.text.markup.tags import Kind, tokenize
from regard.text.text_format import TranslatedText

_ENCODING = re.compile(
    rb"""<(?:\?xml|meta)\b[^>]*?\b(?:encoding|charset)\s*=\s*["']?\s*([\w.:-]+)""",
    re.IGNORECASE,
)
_LATIN = re.compile("iso-?8859-1|latin-?1|(us-)?ascii", re.IGNORECASE)
"""Names by which pages call Windows-1252, as browsers read them."""
_ROOT = re.compile(r"<html\s[^<>]*>", re.IGNORECASE)
_LANGUAGE = re.compile(r"""\s(?:xml:)?lang\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""\s([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_READ = frozenset(("alt", "title", "placeholder", "aria-label", "aria-description"))
"""Attributes that people read, or hear."""
_DESCRIPTION = re.compile(
    r"""\s(?:name|property)\s*=\s*["']?(?:\w+:)?(?:description|title)["'\s>]""",
    re.IGNORECASE,
)
"""Values of `name` and `property` that make the `content` of a `meta` such an attribute."""


class HtmlPage(Document):
    """A page: one text, whose lines are its sentences, and those of its attributes that are asked
    for.
    """

    kind: Kind = "html"
    media_type = "text/html"

    def __init__(self, data: bytes, name: str, options: DocumentOptions) -> None:
        self._source = _decoded(data, name, self.kind)
        text = self._source.text
        markup = parse_markup(text, self.kind, options.markup)
        self._languages = options.languages
        is_asked = options.attributes and self.kind == "html"
        self._values = [*_values(self._source)] if is_asked else []
        page = DocumentText(text, "", markup=markup)
        super().__init__([page, *(slot.text for _, slot in self._values)])

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
        tags = (
            page.text[token.start : token.end] for token in tokenize(page.text, "html")
        )
        # Tags are the same in the translation, but may stand elsewhere.
        written = (apply_edits(tag, edits.get(tag, ())) for tag in tags)
        return self._source.encode("".join(written))

    def _language_edits(self) -> Iterator[tuple[str, Edit]]:
        """Yield the edits that name the language of the translation where the page names that of
        the source, each with its tag.
        """
        source, target = self._languages.pair
        root = _ROOT.search(self._source.text)
        if self.kind != "html" or not root or not source or not target:
            return
        for match in _LANGUAGE.finditer(root[0]):
            if base_language(match[1]) == base_language(source):
                yield root[0], Edit(*match.span(1), target)


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
    media_type = "application/xml"


def _values(source: EncodedText) -> Iterator[tuple[str, Slot]]:
    """Yield the attributes of a page that people read, those of equal tags once: the tag, and the
    value as a slot of it.
    """
    tags = dict[str, int]()
    for token in tokenize(source.text, "html"):
        tag = source.text[token.start : token.end]
        if token.kind in ("open", "empty") and "=" in tag:
            tags.setdefault(tag, source.line_of(token.start))
    for tag, line in tags.items():
        is_description = tag[1:5].lower() == "meta" and _DESCRIPTION.search(tag)
        for match in _ATTRIBUTE.finditer(tag):
            name = match[1].lower()
            group = 2 if match[2] is not None else 3
            value = html.unescape(match[group])
            is_read = name in _READ or (name == "content" and is_description)
            if is_read and has_letters(value):
                described = DocumentText(value, f"{name} in line {line}")
                yield tag, value_slot(*match.span(group), described, html.escape)
