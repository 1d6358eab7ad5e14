"""HTML and XML pages as documents."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.common.errors import DataError
from regard.documents.document import Document, DocumentOptions, DocumentText
from regard.documents.encoding import decode_file
from regard.text.markup.document import parse_markup
from regard.text.markup.tags import Kind
from regard.text.text_format import TranslatedText

_ENCODING = re.compile(
    r"""<(?:\?xml|meta)\b[^>]*?\b(?:encoding|charset)\s*=\s*["']?\s*([\w.:-]+)""",
    re.IGNORECASE,
)


class Page(Document):
    """A page: one text, whose lines are its sentences."""

    def __init__(
        self, data: bytes, name: str, options: DocumentOptions, kind: Kind
    ) -> None:
        self.media_type = "text/html" if kind == "html" else "application/xml"
        self._source = decode_file(data, name)
        encoding = _ENCODING.search(self._source.text, 0, 4096)
        if encoding and encoding[1].lower() not in ("utf-8", "utf8"):
            raise DataError(
                f"{name}: says that it is {encoding[1]}; save it as UTF-8, and let it say so"
            )
        markup = parse_markup(self._source.text, kind, options.markup)
        super().__init__([DocumentText(self._source.text, "", markup=markup)])

    def write(self, translations: Sequence[TranslatedText]) -> bytes:
        """Return the translated page."""
        return self._source.encode(translations[0].text)
