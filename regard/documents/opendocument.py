"""Texts of LibreOffice (ODT): the texts of paragraphs, in tables, frames, notes, headers and
footers, too. Comments and recorded changes stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from regard.common.errors import DataError
from regard.data.languages import Languages
from regard.documents.document import DocumentOptions
from regard.documents.office import (
    OfficeDocument,
    Package,
    Part,
    get_attribute,
    is_language,
    language_slot,
    region_code,
    with_attribute,
)
from regard.documents.runs import (
    Item,
    Paragraph,
    Run,
    find_paragraphs,
    find_partners,
    join_ranges,
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
_SLOTS = (
    ("fo:language", "fo:country"),
    ("style:language-asian", "style:country-asian"),
    ("style:language-complex", "style:country-complex"),
)
_LEFT = {
    "macros stay as they are, and are not run": r"^(?:Basic|Scripts)/",
    "the digital signature no longer holds": r"^META-INF/documentsignatures\.xml$",
    "embedded objects, such as charts, stay in their language": r"^Object \d+/content\.xml$",
}


def read_odt(data: bytes, name: str, options: DocumentOptions) -> OfficeDocument:
    """Read a text of LibreOffice. Raises DataError for what is none, damaged, or has a password."""
    package = Package(data, name)
    if "encryption-data" in package.read("META-INF/manifest.xml").text:
        raise DataError(
            f"{name}: has a password; open it in LibreOffice and save it without one"
        )
    finish = partial(_with_language, languages=options.languages)
    parts = list[Part]()
    for member in ("content.xml", "styles.xml"):
        source = package.read(member)
        looks = {
            get_attribute(match[1], "style:name"): _NO_LOOK.sub("", match[1] + match[2])
            for match in _STYLE.finditer(source.text)
        }
        paragraphs = [*_paragraphs(source.text, looks)]
        parts.append(Part(member, source, paragraphs, finish))
    return OfficeDocument(package, parts, str, options, _notes(package, parts))


def _paragraphs(text: str, looks: Mapping[str, str]) -> Iterator[Paragraph]:
    for tokens in find_paragraphs(text, _PARAGRAPHS, _LEFT_ALONE):
        items = join_ranges(text, _items(text, tokens, looks))
        yield Paragraph(tokens[0].end, tokens[-1].start, items)


def _items(text: str, tokens: Sequence[Token], looks: Mapping[str, str]) -> list[Item]:
    """Return the items of a paragraph."""
    partners = find_partners(tokens)
    items = list[Item]()
    spans = list[str]()
    index = 1
    while index < len(tokens) - 1:
        token = tokens[index]
        last = partners[index]
        raw = text[token.start : token.end]
        run = _run(spans, looks)
        if token.kind == "text":
            items.append(Item("text", token.start, token.end, run, run, raw))
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
        yield Item("text", start, end, run, run, " ")
    elif name in _DIVIDERS or name == "text:s":
        yield Item("divider", start, end, run, run)
    elif name != "text:soft-page-break":
        shown = "".join(
            text[token.start : token.end] for token in tokens if token.kind == "text"
        )
        is_field = name.startswith("text:") and name != "text:note"
        is_kept = is_field and shown.strip()
        yield Item("kept" if is_kept else "point", start, end, run, run, shown)


def _with_language(text: str, languages: Languages) -> str:
    """Set the language of the text where it is that of the source."""
    source, target = languages.pair
    old, _ = _SLOTS[language_slot(source)]
    new, new_country = _SLOTS[language_slot(target)]
    language, _, country = region_code(target).partition("-")

    def replace(match: re.Match[str]) -> str:
        if not is_language(get_attribute(match[0], old), source):
            return match[0]
        tag = with_attribute(match[0], new, language)
        return with_attribute(tag, new_country, country or "none")

    return _LANGUAGE.sub(replace, text) if target else text


def _notes(package: Package, parts: Sequence[Part]) -> Iterator[str]:
    """Yield what stays as it is, and why."""
    texts = [part.source.text for part in parts]
    if any("<office:annotation" in text for text in texts):
        yield "comments stay in their language"
    yield from package.notes(_LEFT)
