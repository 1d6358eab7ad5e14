"""Documents in, the same documents out: each format is a reader of texts, and a writer that puts
translations in their place.

`formats` recognises a file and reads it. A `Document` has `texts`, whose lines a translator
decodes, and renders the translations: the original with only its texts replaced.

    document = regard.documents.open("ko.po")
    translations = translator.begin_document(document).run()
    Path("translated.po").write_bytes(document.render(translations))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.common.lazy import lazy_names

if TYPE_CHECKING:
    from regard.documents.document import Document, DocumentOptions, DocumentText
    from regard.documents.formats import FORMATS, open

__all__ = ["FORMATS", "Document", "DocumentOptions", "DocumentText", "open"]

_MODULES = {
    "document": ("Document", "DocumentOptions", "DocumentText"),
    "formats": ("FORMATS", "open"),
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
