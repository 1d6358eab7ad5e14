"""The formats of documents: how they are recognised, and what reads them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.common.errors import DataError, UsageError
from regard.data.text_kinds import HEAD_BYTES, kind_of
from regard.documents.document import Document, DocumentOptions
from regard.documents.markdown import read_markdown
from regard.documents.markup import Page
from regard.documents.subtitles import read_subtitles
from regard.documents.table_file import read_table
from regard.text.markup.tags import Kind

MAX_BYTES = 1 << 27  # of a document, unpacked
Read = Callable[[bytes, str, DocumentOptions], Document]
"""Reads the bytes of a file of some name. Raises DataError for what cannot be read."""


@dataclass(frozen=True)
class DocumentFormat:
    """A format, recognised as `regard.data.text_kinds.KINDS` has it.

    `is_binary`: it is no text to show in a terminal.
    """

    read: Read
    is_binary: bool = False


def _read_page(data: bytes, name: str, options: DocumentOptions, kind: Kind) -> Page:
    return Page(data, name, kind, options)


FORMATS: dict[str, DocumentFormat] = {
    "html": DocumentFormat(partial(_read_page, kind="html")),
    "xml": DocumentFormat(partial(_read_page, kind="xml")),
    "markdown": DocumentFormat(read_markdown),
    "table": DocumentFormat(read_table),
    "srt": DocumentFormat(read_subtitles),
    "vtt": DocumentFormat(partial(read_subtitles, is_vtt=True)),
}
"""Formats by the names of kinds of files."""


def read_document(
    data: bytes,
    name: str,
    kind: str | None = None,
    options: DocumentOptions | None = None,
) -> Document:
    """Read the bytes of a file. Raises UsageError for a file of no known format, and DataError for
    one that cannot be read.
    """
    kind = kind or kind_of(Path(name).name, data[:HEAD_BYTES])
    if kind not in FORMATS:
        raise UsageError(
            f"{name}: no document of a known format, but {kind}; known are {', '.join(FORMATS)}"
        )
    return FORMATS[kind].read(data, name, options or DocumentOptions())


def open(
    path: str | Path, kind: str | None = None, options: DocumentOptions | None = None
) -> Document:
    """Read a file, whose format is recognised by its name and content unless it is given.

    Raises UsageError for a file of no known format, and DataError for one that cannot be read.
    """
    return read_document(read_bytes(path), str(path), kind, options)


def read_bytes(path: str | Path) -> bytes:
    """Read a file, unpacked if its name ends in .gz. Raises DataError for one that is too large."""
    try:
        with (
            gzip.open(path)
            if str(path).endswith(".gz")
            else Path(path).open("rb") as file
        ):
            data = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise DataError(f"{path}: cannot be read ({reason})") from None
    if not data:
        raise DataError(f"{path}: the file is empty")
    if len(data) > MAX_BYTES:
        raise DataError(
            f"{path}: has more than {MAX_BYTES >> 20} MB, and a document is in memory; divide it"
        )
    return data
