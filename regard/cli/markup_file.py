"""HTML and XML pages in `regard translate`: their sentences are the lines to translate."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from regard.common.errors import DataError
from regard.pipeline.bulk import Lines
from regard.text.aligned_line import AlignedLine
from regard.text.markup.document import MarkupDocument, parse_markup
from regard.text.markup.elements import MarkupOptions
from regard.text.markup.tags import Kind

if TYPE_CHECKING:
    from regard.pipeline import Translation

_LONGEST = 10_000_000
"""Maximum number of characters of a line of a page; the whole page is in memory."""
_ENCODING = re.compile(
    r"""<(?:\?xml|meta)\b[^>]*?\b(?:encoding|charset)\s*=\s*["']?\s*([\w.:-]+)""",
    re.IGNORECASE,
)


class Page(Lines):
    """The sentences of a page as lines.

    The page is called with the result of each line, in order, and returns the translated page with
    the last one.
    """

    document: MarkupDocument

    def __init__(self, file: str, kind: Kind, options: MarkupOptions) -> None:
        super().__init__(file, _LONGEST, keep_ends=True)
        text = "".join(self._read())
        encoding = _ENCODING.search(text, 0, 4096)
        if encoding and encoding[1].lower() not in ("utf-8", "utf8"):
            raise DataError(
                f"{self.name}: says that it is {encoding[1]}; save it as UTF-8, and let it say so"
            )
        self.document = parse_markup(text, kind, options)
        self._translations = list[AlignedLine]()
        self.name = f"the sentences of {self.name}"
        self.typed = False

    def __iter__(self) -> Iterator[str]:
        # With no sentence, an empty line makes sure that the page is written.
        return iter(self.document.lines or ("",))

    def __call__(self, label: int | str, result: Translation) -> str:  # noqa: ARG002
        """Add the translation of a sentence; return the translated page after the last one, and an
        empty string before.
        """
        self._translations.append(
            AlignedLine(result.text, result.alignments, result.markup)
        )
        count = len(self.document.lines)
        if len(self._translations) < count:
            return ""
        return self.document.render(self._translations[:count])
