"""HTML and XML pages as documents."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from regard.common.errors import DataError
from regard.data.sentences import has_letters
from regard.documents.document import (
    Document,
    DocumentOptions,
    DocumentText,
    Edit,
    apply_edits,
)
from regard.documents.encoding import EncodedText, decode_file
from regard.text.markup.document import parse_markup
from regard.text.markup.tags import Kind, tokenize
from regard.text.text_format import TranslatedText

_ENCODING = re.compile(
    rb"""<(?:\?xml|meta)\b[^>]*?\b(?:encoding|charset)\s*=\s*["']?\s*([\w.:-]+)""",
    re.IGNORECASE,
)
_LATIN = ("iso-8859-1", "iso8859-1", "latin1", "us-ascii", "ascii")
"""Names by which pages call Windows-1252, as browsers read them."""
_UTF8 = ("utf-8", "utf8")
_ATTRIBUTE = re.compile(r"""\s([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_READ = frozenset(("alt", "title", "placeholder", "aria-label", "aria-description"))
"""Attributes that people read, or hear."""
_DESCRIPTION = re.compile(
    r"""\s(?:name|property)\s*=\s*["']?(?:\w+:)?(?:description|title)["'\s>]""",
    re.IGNORECASE,
)
"""Values of `name` and `property` that make the `content` of a `meta` such an attribute."""


class _Value(NamedTuple):
    """An attribute that people read: its tag, and the bounds of its value in the tag."""

    tag: str
    start: int
    end: int
    text: DocumentText


class Page(Document):
    """A page: one text, whose lines are its sentences, and those of its attributes that are asked
    for.
    """

    def __init__(
        self, data: bytes, name: str, options: DocumentOptions, kind: Kind
    ) -> None:
        self.media_type = "text/html" if kind == "html" else "application/xml"
        self._source = _decoded(data, name, kind)
        text = self._source.text
        markup = parse_markup(text, kind, options.markup)
        is_asked = options.attributes and kind == "html"
        self._values = [*_values(text)] if is_asked else []
        page = DocumentText(text, "", markup=markup)
        super().__init__([page, *(value.text for value in self._values)])

    def write(self, translations: Sequence[TranslatedText]) -> bytes:
        """Return the translated page."""
        page, *values = translations
        edits = dict[str, list[Edit]]()
        for value, translation in zip(self._values, values, strict=True):
            if translation.text.strip() and translation.text != value.text.text:
                escaped = html.escape(translation.text)
                edit = Edit(value.start, value.end, escaped)
                edits.setdefault(value.tag, []).append(edit)
        if not edits:
            return self._source.encode(page.text)
        tags = (
            page.text[token.start : token.end] for token in tokenize(page.text, "html")
        )
        # Tags are the same in the translation, but may stand elsewhere.
        written = (apply_edits(tag, edits.get(tag, ())) for tag in tags)
        return self._source.encode("".join(written))


def _decoded(data: bytes, name: str, kind: Kind) -> EncodedText:
    """Decode a page as it declares; what its encoding lacks is written as references.

    Raises DataError for an encoding that it does not have.
    """
    match = _ENCODING.search(data, 0, 4096)
    declared = match[1].decode().lower() if match else "utf-8"
    encoding = "cp1252" if kind == "html" and declared in _LATIN else declared
    source = decode_file(data, name, encoding)
    if not (source.mark or source.text.isascii()) and encoding not in _UTF8:
        with suppress(UnicodeDecodeError):
            data.decode()
            raise DataError(
                f"{name}: says that it is {declared}, and is UTF-8; let it say so"
            )
    return replace(source, errors="xmlcharrefreplace")


def _values(text: str) -> Iterator[_Value]:
    """Yield the attributes of a page that people read, those of equal tags once."""
    tags = dict[str, int]()
    line = 1
    for token in tokenize(text, "html"):
        tag = text[token.start : token.end]
        if token.kind in ("open", "empty") and "=" in tag and tag not in tags:
            tags[tag] = line
        line += tag.count("\n")
    for tag, line in tags.items():
        is_description = tag[1:5].lower() == "meta" and _DESCRIPTION.search(tag)
        for match in _ATTRIBUTE.finditer(tag):
            name = match[1].lower()
            group = 2 if match[2] is not None else 3
            value = html.unescape(match[group])
            is_read = name in _READ or (name == "content" and is_description)
            if is_read and has_letters(value):
                described = DocumentText(value, f"{name} in line {line}")
                yield _Value(tag, *match.span(group), described)
