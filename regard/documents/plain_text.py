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
    value_slot,
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
            slots.append(value_slot(*match.span(), text, may_be_empty=True))
    return EditedText(source, slots)
