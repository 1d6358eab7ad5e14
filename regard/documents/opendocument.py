"""Texts of LibreOffice (ODT): the texts of paragraphs, in tables, frames, notes, headers and
footers, too. Comments and recorded changes stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from regard.common.errors import DataError
from regard.documents.office import (
    OfficeDocument,
    Package,
    Part,
    get_attribute,
)
from regard.documents.runs import (
    Item,
    Paragraph,
    Run,
    find_paragraphs,
    join_ranges,
    object_item,
)
from regard.text.markup.tags import Token, names

_PARAGRAPHS = names("text:p text:h")
_LEFT_ALONE = names("office:annotation text:tracked-changes")
_AROUND = names("text:a text:meta")
_DIVIDERS = names("text:tab text:line-break")
_STYLE = re.compile(
    r"<style:style\b([^>]*\bstyle:family=\"text\"[^>]*)>(.*?)</style:style>"
)
_NO_LOOK = re.compile(
    r"""\s*(?:officeooo:(?:paragraph-)?rsid|(?:fo|style):(?:language|country)(?:-\w+)?|style:name|"""
    r"""style:family)="[^"]*"|<style:text-properties\s*/>"""
)
"""Attributes of a style that do not show."""
_LANGUAGE = re.compile(r"<style:text-properties\b[^>]*>")


class OdtDocument(OfficeDocument):
    """A text of LibreOffice. Raises DataError for what is none, damaged, or has a password."""

    language_tags = _LANGUAGE
    language_names = (
        ("fo:language", "fo:country"),
        ("style:language-asian", "style:country-asian"),
        ("style:language-complex", "style:country-complex"),
    )
    left = (
        (r"^(?:Basic|Scripts)/", "macros stay as they are, and are not run"),
        (
            r"^META-INF/documentsignatures\.xml$",
            "the digital signature no longer holds",
        ),
        (
            r"^Object \d+/content\.xml$",
            "embedded objects, such as charts, stay in their language",
        ),
    )

    def read_parts(self, package: Package) -> Iterator[Part]:
        """Yield the text, and the styles with headers and footers."""
        if "encryption-data" in package.read("META-INF/manifest.xml").text:
            raise DataError(
                f"{package.name}: has a password; open it in LibreOffice and save it without one"
            )
        for member in ("content.xml", "styles.xml"):
            source = package.read(member)
            looks = {
                get_attribute(match[1], "style:name"): _NO_LOOK.sub(
                    "", match[1] + match[2]
                )
                for match in _STYLE.finditer(source.text)
            }
            yield Part(member, source, [*_paragraphs(source.text, looks)])


def _paragraphs(text: str, looks: Mapping[str, str]) -> Iterator[Paragraph]:
    for tokens, partners in find_paragraphs(text, _PARAGRAPHS, _LEFT_ALONE):
        items = join_ranges(text, _items(text, tokens, partners, looks))
        yield Paragraph(tokens[0].end, tokens[-1].start, items)


def _items(
    text: str,
    tokens: Sequence[Token],
    partners: Sequence[int],
    looks: Mapping[str, str],
) -> list[Item]:
    """Return the items of a paragraph."""
    items = list[Item]()
    spans = list[str]()
    index = 1
    while index < len(tokens) - 1:
        token = tokens[index]
        last = partners[index]
        raw = text[token.start : token.end]
        run = _run(spans, looks)
        if token.kind == "text":
            items.append(Item("text", token.start, token.end, run, raw))
        elif token.name == "text:span":
            if token.kind == "open":
                spans.append(raw)
            elif token.kind == "close":
                spans.pop()
        elif token.kind == "close":
            items.append(Item("close", token.start, token.end))
        elif token.name in _AROUND and token.kind == "open":
            items.append(Item("open", token.start, token.end))
        else:
            items += _object(text, tokens[index : last + 1], run, bool(items))
            index = last
        index += 1
    return items


def _run(spans: Sequence[str], looks: Mapping[str, str]) -> Run:
    """Return the format of text in some spans."""
    styles = [get_attribute(span, "text:style-name") for span in spans]
    key = " ".join(filter(None, (looks.get(style, style) for style in styles)))
    return Run("".join(spans), "</text:span>" * len(spans), key)


def _object(
    text: str, tokens: Sequence[Token], run: Run, is_inside: bool
) -> Iterator[Item]:
    """Yield the item of an element that is not around text; a single space is text if it is inside
    of the paragraph.
    """
    start = tokens[0].start
    end = tokens[-1].end
    name = tokens[0].name
    if name == "text:s" and is_inside and "text:c=" not in text[start:end]:
        yield Item("text", start, end, run, " ")
    elif name in _DIVIDERS or name == "text:s":
        yield Item("divider", start, end, run)
    elif name != "text:soft-page-break":
        shown = "".join(
            text[token.start : token.end] for token in tokens if token.kind == "text"
        )
        is_field = name.startswith("text:") and name != "text:note"
        yield object_item(start, end, run, shown if is_field else "")
