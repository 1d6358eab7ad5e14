"""The formats of documents: how they are recognised, and what reads them."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from regard.common.errors import DataError, UsageError
from regard.common.lazy import needs_extra
from regard.data.text_kinds import HEAD_BYTES, KINDS, kind_of, why_refused
from regard.documents.document import Document, DocumentOptions

MAX_BYTES = 1 << 27  # of a document, unpacked
LIBRARIES = ("yaml", "fluent", "pyromark")
"""Packages of the extra `documents`, by their import names."""


@dataclass(frozen=True)
class DocumentFormat:
    """A format, recognised as `regard.data.text_kinds.KINDS` has it.

    `reader`: the module and the name of what reads it. `media_type`: that of its files.
    `is_binary`: it is no text to show in a terminal. `has_keys`: its texts are known by their
    names, so that those of two files compare.
    """

    reader: str
    media_type: str = "text/plain"
    is_binary: bool = False
    has_keys: bool = False

    def read(self, data: bytes, name: str, options: DocumentOptions) -> Document:
        """Read the bytes of a file of some name. Raises DataError for what cannot be read."""
        module, _, reader = self.reader.rpartition(".")
        # Imported late, since most programs read few formats.
        with needs_extra("documents", name, LIBRARIES):
            read = getattr(import_module(f"regard.documents.{module}"), reader)
        document: Document = read(data, name, options)
        return document


_OFFICE = "application/vnd."
_PLAIN_TEXT = DocumentFormat("plain_text.read_plain_text")
FORMATS = {
    "html": DocumentFormat("markup.HtmlPage", "text/html"),
    "xml": DocumentFormat("markup.XmlPage", "application/xml"),
    "markdown": DocumentFormat("markdown.MarkdownFile", "text/markdown"),
    "table": DocumentFormat("table_file.read_table"),
    "srt": DocumentFormat("subtitles.read_srt"),
    "vtt": DocumentFormat("subtitles.read_vtt", "text/vtt"),
    "po": DocumentFormat("po.Catalogue"),
    "xliff": DocumentFormat("xliff.XliffFile", "application/xliff+xml"),
    "android": DocumentFormat(
        "string_files.AndroidStrings", "application/xml", has_keys=True
    ),
    "resx": DocumentFormat(
        "string_files.ResxStrings", "application/xml", has_keys=True
    ),
    "ts": DocumentFormat("string_files.QtStrings", "application/xml"),
    "json": DocumentFormat("json_file.read_json", "application/json", has_keys=True),
    "properties": DocumentFormat("properties_file.read_properties", has_keys=True),
    "strings": DocumentFormat("apple_strings.read_strings", has_keys=True),
    "yaml": DocumentFormat("yaml_file.read_yaml", "application/yaml", has_keys=True),
    "fluent": DocumentFormat("fluent_file.read_fluent", has_keys=True),
    "docx": DocumentFormat(
        "word.WordDocument",
        f"{_OFFICE}openxmlformats-officedocument.wordprocessingml.document",
        is_binary=True,
    ),
    "odt": DocumentFormat(
        "opendocument.OdtDocument", f"{_OFFICE}oasis.opendocument.text", is_binary=True
    ),
}
"""Formats by the names of kinds of files."""


def read_document(
    data: bytes,
    name: str,
    kind: str | None = None,
    options: DocumentOptions | None = None,
) -> Document:
    """Read the bytes of a file; one that ends in .txt is plain text.

    Raises UsageError for a file of no known format, and DataError for one that cannot be read, or
    is named like a file of another kind.
    """
    kind = kind or kind_of(Path(name).name, data[:HEAD_BYTES])
    options = options or DocumentOptions()
    if kind == "text" and name.lower().removesuffix(".gz").endswith(".txt"):
        return _PLAIN_TEXT.read(data, name, options)
    if kind in KINDS and kind not in FORMATS:
        raise UsageError(f"{name}: {why_refused(kind)}")
    if kind not in FORMATS:
        raise UsageError(
            f"{name}: no document of a known format; name it by its format, such as .txt; known "
            f"are {', '.join(FORMATS)}"
        )
    named = kind_of(Path(name).name, b"")
    if FORMATS[kind].is_binary and named not in ("text", kind):
        raise DataError(
            f"{name}: is {KINDS[kind].description}, and its name that of "
            f"{KINDS[named].description}; name it .{kind}"
        )
    try:
        document = FORMATS[kind].read(data, name, options)
    except DataError as problem:
        own = kind_of(Path(name).name, data[:HEAD_BYTES])
        if own in ("text", kind):
            raise
        # The cause of a package that is read as text would mislead.
        is_package = FORMATS.get(own, _PLAIN_TEXT).is_binary
        raise DataError(
            f"{name}: is {KINDS[own].description}, and `input={kind}` reads it as "
            f"{KINDS[kind].description}, which it is not; leave `input=` out",
            *(() if is_package else problem.causes),
        ) from None
    document.name = name
    document.format = kind
    document.media_type = FORMATS[kind].media_type
    if not document.lines:
        document.notes += ("there is nothing to translate",)
    return document


def check_ending(output: Path, name: str, kind: str) -> None:
    """Raise UsageError for an output that would be named like a file of another kind than that of
    its document.
    """
    suffix = Path(name).suffix
    is_binary = FORMATS.get(kind, _PLAIN_TEXT).is_binary
    own = kind_of(Path(name).name, b"")
    # Text files of many formats are named .xml.
    if own not in ("text", kind) and (is_binary or own != "xml"):
        raise UsageError(
            f"{name}: its name is that of {KINDS[own].description}, and it is to be read as "
            f"{KINDS[kind].description}; let its kind be recognised, or name it .{kind}"
        )
    if output.suffix in ("", suffix) or output.is_dir():
        return
    is_other = kind_of(output.name, b"") not in ("text", kind)
    is_text = kind in FORMATS and output.suffix.lower() == ".txt"
    if is_binary or is_other or is_text:
        ending = ".po" if kind == "po" else suffix or f".{kind}"
        raise UsageError(
            f"{output}: {name} is {kind.upper()}, and stays so; give the output a name in {ending}"
        )


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
        raise DataError(f"{path}: cannot be read ({reason}); check its name") from None
    check_filled(data, str(path))
    if len(data) > MAX_BYTES:
        raise DataError(
            f"{path}: has more than {MAX_BYTES >> 20} MB, and a document is in memory; divide it"
        )
    return data


def check_filled(data: bytes, name: str) -> None:
    """Raise DataError for a file without bytes, which is nobody's document."""
    if not data:
        raise DataError(f"{name}: the file is empty")
