"""Plain text as a document: each line is a text."""

from __future__ import annotations

import re

from regard.data.sentences import has_letters
from regard.documents.document import (
    Document,
    DocumentOptions,
    DocumentText,
    EditedText,
    Slot,
    replaced,
)
from regard.documents.encoding import decode_file

_LINE = re.compile(r"\S(?:[^\r\n]*\S)?")


def read_plain_text(data: bytes, name: str, options: DocumentOptions) -> Document:  # noqa: ARG001
    """Read the lines of a text; those without letters, and space around them, stay."""
    source = decode_file(data, name)
    slots = list[Slot]()
    for match in _LINE.finditer(source.text):
        if has_letters(match[0]):
            text = DocumentText(match[0], f"line {source.line_of(match.start())}")
            slots.append(Slot(text, replaced(*match.span())))
    return EditedText(source, slots)
