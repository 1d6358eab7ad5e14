"""Documents in XML: their elements with positions, read strictly and without any entity."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from xml.parsers import expat

from regard.common.errors import DataError
from regard.common.lazy import lazy_pattern
from regard.documents.document import DocumentOptions, Edit, StringFile
from regard.documents.encoding import EncodedText, decode_file
from regard.documents.xml_content import plain_text
from regard.text.markup.tags import attributes, tokenize
from regard.text.markup.writing import Source

_DECLARED = re.compile(rb"""<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
_ATTRIBUTE = lazy_pattern(r"([^\s=]+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_DEEPEST = 200
"""Most elements within each other."""


@dataclass
class Element:
    """An element between two offsets, and its content between two.

    `tag` is its name with the prefix of its namespace, `name` without.
    """

    tag: str
    start: int
    end: int
    content_start: int
    content_end: int
    attributes: dict[str, str]
    parent: Element | None
    children: list[Element] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name without a prefix."""
        return self.tag.rpartition(":")[2]

    def child(self, name: str) -> Element | None:
        """Return the first child of a name."""
        return next((child for child in self.children if child.name == name), None)

    def walk(self, *names: str) -> Iterator[Element]:
        """Yield the elements of some names in order, but none within another."""
        stack = [self]
        while stack:
            element = stack.pop()
            if element.name in names:
                yield element
            else:
                stack += reversed(element.children)

    def inherited(self, name: str) -> str:
        """Return the value of an attribute of the element, or of the nearest around it that has it;
        empty if none has.
        """
        element: Element | None = self
        while element is not None:
            if name in element.attributes:
                return element.attributes[name]
            element = element.parent
        return ""


class XmlFile(StringFile):
    """A string file in XML. `lock`: how a text is marked that is not to be translated.

    Raises DataError, with the line, for one that is not well-formed, that declares entities, that
    is nested without end, or whose element at the `root` is another. Nothing outside of it is read.
    """

    root_name = ""
    lock = ""

    def __init__(self, data: bytes, name: str, options: DocumentOptions) -> None:
        declared = _DECLARED.match(data.lstrip()[:400])
        encoding = declared[1].decode().lower() if declared else "utf-8"
        source = decode_file(data, name, encoding)
        check_xml(source)
        self.root = _read_elements(source.text, name)
        self.locked_notes = (
            f"text stays as written: it has {self.lock}",
            f"texts stay as written: they have {self.lock}",
        )
        wrong = self.mistaken()
        if wrong:
            raise DataError(f"{name}, line {source.line_of(self.root.start)}: {wrong}")
        super().__init__(source, options)

    def mistaken(self) -> str:
        """Return why the element at the root is none of this kind; empty if it is one."""
        if self.root.name == self.root_name:
            return ""
        return f"wanted <{self.root_name}>, got <{self.root.tag}>; is it another kind of file?"

    def content(self, element: Element | None) -> str:
        """Return the content of an element, as written."""
        if element is None:
            return ""
        return self.source.text[element.content_start : element.content_end]

    def text_of(self, element: Element | None) -> str:
        """Return the text of an element without tags."""
        return plain_text(self.content(element))

    def space_before(self, element: Element) -> str:
        """Return the white space before an element, by which siblings are laid out."""
        before = self.source.text[max(0, element.start - 1_000) : element.start]
        return before[len(before.rstrip()) :]

    @cached_property
    def writer(self) -> Source:
        """Escapes texts as the file does."""
        return Source(self.source.text, "xml")

    def replace_content(self, element: Element, content: str) -> Iterator[Edit]:
        """Yield the edit that gives an element another content."""
        if element.content_start == element.end:  # a single tag, such as <target/>
            slash = self.source.text.rindex("/", element.start, element.end)
            yield Edit(slash, element.end, f">{content}</{element.tag}>")
        else:
            yield Edit(element.content_start, element.content_end, content)

    def set_attributes(self, element: Element, **values: str) -> Iterator[Edit]:
        """Yield edits that give attributes of an element other values."""
        matches = _ATTRIBUTE.finditer(
            self.source.text, element.start, element.content_start
        )
        bounds = {match[1]: match.span(2) for match in matches}
        for name, value in values.items():
            if name in bounds:
                start, end = bounds[name]
                yield Edit(start + 1, end - 1, value)
            else:
                start = element.start + 1 + len(element.tag)
                yield Edit(start, start, f' {name}="{value}"')


def check_xml(source: EncodedText) -> None:
    """Raise DataError for XML that is not well-formed, or that declares entities."""
    parser = expat.ParserCreate()

    def refuse(entity: str, *_: object) -> None:
        raise DataError(
            f"{source.name}, line {parser.CurrentLineNumber}: declares the entity "
            f"{entity[:40]!r}, and such files are not read; export it without"
        )

    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(source.text, True)
    except expat.ExpatError as problem:
        reason = expat.ErrorString(problem.code)
        raise DataError(
            f"{source.name}, line {problem.lineno}: not well-formed XML ({reason}); mend it, or "
            "export it again"
        ) from None


def _read_elements(text: str, name: str) -> Element:
    """Return the element at the root of a well-formed text. Raises DataError for one that is nested
    without end.
    """
    top = Element("", 0, len(text), 0, len(text), {}, None)
    parent = top
    depth = 0
    for token in tokenize(text, "xml"):
        if token.kind == "close":
            parent.content_end = token.start
            parent.end = token.end
            parent = parent.parent or top
            depth -= 1
        elif token.kind in ("open", "empty"):
            values = attributes(text, token)
            element = Element(
                token.name,
                token.start,
                token.end,
                token.end,
                token.end,
                {name: html.unescape(value) for name, value in values.items()},
                parent,
            )
            parent.children.append(element)
            if token.kind == "open":
                parent = element
                depth += 1
        if depth > _DEEPEST:
            line = text.count("\n", 0, token.start) + 1
            raise DataError(
                f"{name}, line {line}: more than {_DEEPEST} elements within each other; such files "
                "are not read"
            )
    root = top.children[0]
    root.parent = None
    return root
