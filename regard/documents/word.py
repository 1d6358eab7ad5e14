"""Word documents (DOCX, DOCM): the texts of paragraphs, in tables, text boxes, headers, footers,
footnotes and endnotes, too. Comments stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.common.errors import DataError
from regard.documents.encoding import EncodedText
from regard.documents.office import (
    OfficeDocument,
    Package,
    Part,
    get_attribute,
)
from regard.documents.runs import (
    NO_RUN,
    Item,
    Paragraph,
    Run,
    find_paragraphs,
    is_balanced,
    join_ranges,
    object_item,
)
from regard.text.markup.tags import Token, names

_TEXT_PARTS = re.compile(
    r"(?:document|template)(?:\.macroEnabled(?:Template)?)?(?:\.main)?\+xml|(?:header|footer|footnotes|endnotes)\+xml"
)
_LANGUAGE_PARTS = re.compile(r"(?:styles|settings|numbering)\+xml")
_OVERRIDE = re.compile(r"<Override\b[^>]*>")
_NAMESPACE = re.compile(
    r"""xmlns(?::([\w.-]+))?=["'](?:http://schemas\.openxmlformats\.org/wordprocessingml/2006/main|"""
    r"""http://purl\.oclc\.org/ooxml/wordprocessingml/main)["']"""
)
_AROUND = names("hyperlink smartTag customXml sdt dir bdo")
"""Elements around runs whose text belongs to the sentence."""
_PROPERTIES = names("smartTagPr customXmlPr sdtPr sdtEndPr sdtContent")
_DIVIDERS = names("tab br cr ptab")
_DROPPED = names("proofErr lastRenderedPageBreak softHyphen")
"""Elements that say something about the text as it was."""
_NO_LOOK = re.compile(r"<\w+:(?:lang|noProof)\b[^>]*/>|\s*</?\w+:rPr\s*/?>")
"""Properties of text that do not show."""
_FIELD = re.compile(r"""<\w+:fldChar\b[^>]*fldCharType=["'](\w+)""")
_LINK = re.compile(r"<\w+:instrText\b[^>]*>\s*HYPERLINK\b")
_FILLED = re.compile(r"<\w+:(?:dataBinding|dropDownList|comboBox|date|checkbox)\b")
"""Properties of a control whose text is filled in by a program, or chosen."""
_LANGUAGE = re.compile(r"<w:(?:lang|themeFontLang)\b[^>]*>")


class WordDocument(OfficeDocument):
    """A Word document. Raises DataError for what is none, or damaged."""

    language_tags = _LANGUAGE
    language_names = (("w:val",), ("w:eastAsia",), ("w:bidi",))
    left = (
        (r"/comments\.xml$", "comments stay in their language"),
        (r"/vbaProject\.bin$", "macros stay as they are, and are not run"),
        (r"^_xmlsignatures/", "the digital signature no longer holds"),
        (
            r"/(?:charts/chart|diagrams/data)\d*\.xml$",
            "charts and diagrams stay in their language",
        ),
    )

    def read_parts(self, package: Package) -> Iterator[Part]:
        """Yield the members with text, and those that name its language."""
        overrides = _OVERRIDE.findall(package.read("[Content_Types].xml").text)
        has_text = False
        members = {
            get_attribute(tag, "PartName")[1:]: get_attribute(tag, "ContentType")
            for tag in overrides
        }
        for member, kind in members.items():
            is_text = _TEXT_PARTS.search(kind) is not None
            if "wordprocessingml" not in kind and "ms-word" not in kind:
                continue
            if is_text or _LANGUAGE_PARTS.search(kind):
                source = package.read(member)
                _check_prefix(source)
                paragraphs = [*_paragraphs(source.text)] if is_text else []
                yield Part(member, source, paragraphs)
                has_text |= "main+xml" in kind
        if not has_text:
            raise DataError(
                f"{package.name}: no Word document, since it has no text; save it as .docx by Word"
            )

    def write_text(self, text: str) -> str:
        """Return text as an element of a run."""
        return f'<w:t xml:space="preserve">{text}</w:t>'


def _check_prefix(source: EncodedText) -> None:
    """Raise DataError unless the elements of Word have the prefix that Word gives them."""
    match = _NAMESPACE.search(source.text)
    if match is None or match[1] != "w":
        raise DataError(
            f"{source.name}: its elements are not called w:…, as Word writes them; open the file "
            "in an office program and save it anew"
        )


def _paragraphs(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of a member, inner ones before those around them."""
    for tokens, partners in find_paragraphs(text, names("w:p")):
        first = 1
        if tokens[1].name == "w:pPr":
            first = partners[1] + 1
        reader = _Reader(text, tokens, partners)
        items = reader.read(first)
        start = tokens[first - 1].end
        yield Paragraph(
            start, tokens[-1].start, join_ranges(text, _join_fields(text, items))
        )


@dataclass
class _Reader:
    """Reader of the items of a paragraph from its tokens."""

    _text: str
    _tokens: Sequence[Token]
    _partners: Sequence[int]

    def _name(self, index: int) -> str:
        return self._tokens[index].name.removeprefix("w:")

    def read(self, index: int) -> list[Item]:
        """Return the items from a token to the end of the paragraph."""
        items = list[Item]()
        run = NO_RUN
        while index < len(self._tokens) - 1:
            token = self._tokens[index]
            name = self._name(index)
            last = self._partners[index]
            if token.kind == "close":
                if name == "r":
                    run = NO_RUN
                elif name != "sdtContent":
                    # The end of a control begins with that of its content.
                    start = self._tokens[index - (name == "sdt")].start
                    items.append(Item("close", start, token.end))
            elif token.kind == "open" and name == "r":
                run, index = self._run(index)
            elif (
                token.kind == "open" and name in _AROUND and not self._is_filled(index)
            ):
                index = self._properties_end(index)
                items.append(Item("open", token.start, self._tokens[index].end))
            elif token.kind != "text":
                items += self._embedded(index, last, run)
                index = last
            index += 1
        return items

    def _run(self, index: int) -> tuple[Run, int]:
        """Return the format of a run, and the index of the last token of its properties."""
        start = self._tokens[index]
        last = index
        if self._name(index + 1) == "rPr":
            last = self._partners[index + 1]
        properties = self._text[start.end : self._tokens[last].end]
        opening = self._text[start.start : self._tokens[last].end]
        return Run(opening, "</w:r>", _NO_LOOK.sub("", properties)), last

    def _is_filled(self, index: int) -> bool:
        """Return whether an element is a control that is filled in."""
        if self._name(index) != "sdt":
            return False
        last = self._properties_end(index)
        properties = self._text[self._tokens[index].end : self._tokens[last].end]
        return bool(_FILLED.search(properties)) or self._name(last) != "sdtContent"

    def _properties_end(self, index: int) -> int:
        """Return the index of the last token before the content of an element."""
        while self._name(index + 1) in _PROPERTIES:
            index += 1
            if self._name(index) == "sdtContent":
                break
            index = self._partners[index]
        return index

    def _embedded(self, index: int, last: int, run: Run) -> Iterator[Item]:
        """Yield the item of an element that is not around text."""
        start = self._tokens[index].start
        end = self._tokens[last].end
        name = self._name(index)
        if name == "t" and last > index:
            inner = self._inner(index)
            if "<" not in inner:
                if "preserve" not in self._text[start : self._tokens[index].end]:
                    inner = inner.strip()
                if inner:
                    yield Item("text", start, end, run, inner)
                return
        if name == "noBreakHyphen":
            yield Item("text", start, end, run, "\u2011")
        elif name in _DIVIDERS:
            yield Item("divider", start, end, run)
        elif name not in _DROPPED:
            texts = [
                self._inner(number)
                for number in range(index, last)
                if self._name(number) == "t"
            ]
            shown = "".join(text for text in texts if "<" not in text)
            yield object_item(start, end, run, shown)

    def _inner(self, index: int) -> str:
        """Return what stands in an element."""
        last = self._partners[index]
        return self._text[self._tokens[index].end : self._tokens[last].start]


def _join_fields(text: str, items: Sequence[Item]) -> list[Item]:
    """Make a link of each field that is one, and a kept item of each other field, with what it
    shows; fields that go on in other paragraphs stay as they are.
    """
    joined = list[Item]()
    begun = list[tuple[int, int]]()  # the items that begin a field and its text
    for item in items:
        joined.append(item)
        field = _FIELD.match(text, item.start)
        if field is None or item.kind != "point":
            continue
        if field[1] == "begin":
            begun.append((len(joined) - 1, len(joined) - 1))
        elif begun and field[1] == "separate":
            begun[-1] = (begun[-1][0], len(joined) - 1)
        elif begun:
            first, middle = begun.pop()
            begin, separate = joined[first], joined[middle]
            inner = joined[middle + 1 : -1]
            if not is_balanced(joined[first:]) or not is_balanced(inner):
                continue
            if _LINK.search(text, begin.start, separate.end):
                joined[first:] = [
                    Item(
                        "open", begin.start, separate.end, begin.run, "", separate.run
                    ),
                    *inner,
                    item._replace(kind="close"),
                ]
                continue
            shown = "".join(part.text for part in inner)
            field_item = object_item(begin.start, item.end, begin.run, shown)
            joined[first:] = [field_item._replace(last_run=item.run)]
    return joined
