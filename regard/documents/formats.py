"""The formats of documents: how they are recognised, and what reads them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.common.errors import DataError, UsageError
from regard.common.lazy import needs_extra
from regard.data.text_kinds import HEAD_BYTES, kind_of
from regard.documents.apple_strings import read_strings
from regard.documents.document import Document, DocumentOptions
from regard.documents.json_file import read_json
from regard.documents.markup import Page
from regard.documents.properties_file import read_properties
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


def _read_yaml(data: bytes, name: str, options: DocumentOptions) -> Document:
    with needs_extra("documents", "YAML", ("yaml",)):
        from regard.documents.yaml_file import read_yaml
    return read_yaml(data, name, options)


def _read_fluent(data: bytes, name: str, options: DocumentOptions) -> Document:
    with needs_extra("documents", "Fluent", ("fluent",)):
        from regard.documents.fluent_file import read_fluent
    return read_fluent(data, name, options)


FORMATS: dict[str, DocumentFormat] = {
    "html": DocumentFormat(partial(_read_page, kind="html")),
    "xml": DocumentFormat(partial(_read_page, kind="xml")),
    "json": DocumentFormat(read_json),
    "properties": DocumentFormat(read_properties),
    "yaml": DocumentFormat(_read_yaml),
    "fluent": DocumentFormat(_read_fluent),
    "strings": DocumentFormat(read_strings),
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
    if len(data) > MAX_BYTES:
        raise DataError(
            f"{path}: has more than {MAX_BYTES >> 20} MB, and a document is in memory; divide it"
        )
    return data
