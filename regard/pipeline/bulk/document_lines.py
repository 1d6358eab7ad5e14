"""The lines of a document, translated in chunks; the document is written at the end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from regard.data.pairs import excerpt_of
from regard.documents import Document
from regard.pipeline.bulk.lines import Lines, Numbering
from regard.text.translation import TranslatedPart, Translation

_LONGEST = 10_000_000
"""Maximum number of characters of a line; the whole document is in memory."""


class DocumentNumbering(Numbering):
    """Names lines by the texts that they are parts of."""

    def __init__(self, document: Document) -> None:
        super().__init__("sentence")
        self._document = document

    def name(self, line: int) -> str:
        """Return where a line stands, such as "entry 4"."""
        return self._document.name_of_line(line - 1)

    def label(self, line: int) -> str:
        """Return where a line stands, and how it begins unless the name shows it."""
        name = self.name(line)
        if "“" in name:
            return name
        return f"{name} “{excerpt_of(self._document.lines[line - 1])}”"


class DocumentLines(Lines):
    """The lines of the texts of a document.

    Called with the number and the translation of a line, it returns a line of a journal; from all
    of them `render` makes the translated document.
    """

    document: Document

    def __init__(self, file: str, document: Document) -> None:
        super().__init__(file, _LONGEST)
        self.document = document
        self.numbering = DocumentNumbering(document)
        self.typed = False

    def __iter__(self) -> Iterator[str]:
        return iter(self.document.lines)

    def __call__(self, label: int | str, result: Translation) -> str:  # noqa: ARG002
        """Return the translation of a line as JSON, with what the document is written from."""
        values = {
            "text": result.text,
            "alignments": result.alignments,
            "markup": result.markup,
            "broken": result.broken,
            "fault": result.fault,
            "parts": [part._asdict() for part in result.parts],
        }
        return json.dumps(values, ensure_ascii=False) + "\n"

    def render(self, journal: Iterable[str]) -> bytes:
        """Return the translated document."""
        return self.document.render([_read_line(line) for line in journal])


def _read_line(line: str) -> Translation:
    values = json.loads(line)
    links = values["alignments"]
    return Translation(
        values["text"],
        (),
        0.0,
        None if links is None else tuple((source, target) for source, target in links),
        parts=tuple(TranslatedPart(**part) for part in values["parts"]),
        markup=values["markup"],
        broken=values["broken"],
        fault=values["fault"],
    )
