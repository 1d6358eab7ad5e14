"""Kinds of files whose lines may look like text: how they are recognised by name and content."""

from __future__ import annotations

import contextlib
import gzip
import re
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from regard.common.errors import DataError
from regard.data.text import BOM

HEAD_BYTES = 1 << 18  # bytes of a file that are read
_PROLOGUE = r"\s*(?:<!--(?:(?!-->)(?s:.))*-->\s*|<[?!](?!--)[^>]*>\s*)*?"
"""Declarations and comments before the first element of XML."""
_OFFICE = r"PK\x03\x04"
_OLE = r"\xd0\xcf\x11\xe0"
"""First bytes of office programs before 2007, and of documents with a password."""
_OFFICE_FILE = (
    "open it with Word or LibreOffice, save it as .docx or .odt, and translate that"
)
_TO_TEXT = "save its sentences as plain text, one a line"
LINES = frozenset(("text", "jsonl"))
"""Kinds that are translated line by line."""


class FileKind(NamedTuple):
    """A kind of files: what a file of it is, a pattern for its name in lower case, a line feed and
    its first bytes as Latin-1, and what to do with it if it is not read.
    """

    description: str
    pattern: str
    remedy: str = _TO_TEXT


KINDS = {
    "slides": FileKind(
        "slides",
        r".*\.(pp[ts][xm]?|odp)\n",
        "save their text as .docx or .odt, and translate that",
    ),
    "pdf": FileKind("a PDF", r".*\n%PDF-\d", _OFFICE_FILE),
    "docx": FileKind(
        "a Word document",
        rf".*\.do[ct][xm]\n|.*\.do[ct]\n{_OLE}|.*\n{_OFFICE}(?s:.*?)word/document\.xml",
    ),
    "odt": FileKind(
        "a text of LibreOffice",
        rf".*\.o[dt]t\n|.*\n{_OFFICE}(?s:.{{26}})mimetypeapplication/vnd\.oasis\.opendocument\.text",
    ),
    "flat": FileKind(
        "a flat document of LibreOffice",
        rf".*\.fod[tspg]\n|.*\n{_PROLOGUE}<office:document[\s>]",
        "open it with LibreOffice, save it as .odt, or a table as .csv, and translate that",
    ),
    "rtf": FileKind("RTF", r".*\.rtf\n|.*\n\{\\rtf\d", _OFFICE_FILE),
    "latex": FileKind("LaTeX", r".*\.(tex|latex|ltx)\n|.*\n\s*\\documentclass\b"),
    "markdown": FileKind(
        "Markdown",
        r".*\.(md|markdown|mdx)\n",
    ),
    "rst": FileKind("reStructuredText or AsciiDoc", r".*\.(rst|adoc|asciidoc)\n"),
    "po": FileKind(
        "a message catalogue (PO)",
        r'.*\.pot?\n|.*\n(#.*\n|\s)*msgid ".*"\r?\n("|msgstr)',
    ),
    "xliff": FileKind(
        "a translation file (XLIFF)",
        rf".*\.(\w*xliff|xlf)\n|.*\n{_PROLOGUE}<xliff[\s>]",
    ),
    "tmx": FileKind(
        "a translation memory (TMX)", rf".*\.tmx\n|.*\n{_PROLOGUE}<tmx[\s>]"
    ),
    "ts": FileKind("a translation file of Qt (TS)", rf".*\n{_PROLOGUE}<TS[\s>]"),
    "srt": FileKind(
        "a subtitle file (SRT)",
        r".*\.srt\n|.*\n\d+\s*\n\d+:\d\d:\d\d,\d+ --> ",
    ),
    "vtt": FileKind("a subtitle file (WebVTT)", r".*\.vtt\n|.*\nWEBVTT(\s*\n|.*\n\s)"),
    "subtitles": FileKind(
        "a subtitle file of another format",
        r".*\.(ass|ssa|sub|sbv|lrc)\n|.*\n\[Script Info\]",
        "save it as SRT or WebVTT, and translate that",
    ),
    "json": FileKind("a file of JSON", r".*\.(json|arb)\n"),
    "notebook": FileKind("a notebook", r".*\.ipynb\n"),
    "yaml": FileKind("a file of YAML", r".*\.ya?ml\n"),
    "toml": FileKind("a file of TOML", r".*\.toml\n"),
    "properties": FileKind("a message file (properties)", r".*\.properties\n"),
    "strings": FileKind("a message file (strings)", r".*\.strings\n"),
    "fluent": FileKind("a message file (Fluent)", r".*\.ftl\n"),
    "messages": FileKind("a message file", r".*\.(stringsdict|xcstrings)\n"),
    "resx": FileKind("a message file (RESX)", r".*\.res[xw]\n"),
    "android": FileKind(
        "a message file of Android", rf".*\n{_PROLOGUE}<resources[^>]*>\s*<"
    ),
    "usfm": FileKind("USFM", r".*\.u?sfm\n|.*\n\\id [0-9A-Z]{3}\b"),
    "table": FileKind("a table", r".*\.[ct]sv\n"),
    "spreadsheet": FileKind(
        "a spreadsheet",
        r".*\.(xls[xmb]?|ods)\n",
        "save it as .csv, and name the column to translate, such as `column=text`",
    ),
    "svg": FileKind("SVG", rf".*\.svg\n|.*\n{_PROLOGUE}<svg\s"),
    "jsonl": FileKind("JSON lines", r".*\.(jsonl|ndjson)\n"),
    "html": FileKind(
        "a page", rf"(?i).*\.x?html?\n|.*\n{_PROLOGUE}<(!doctype )?html[^>]*>\s*<[!a-z]"
    ),
    "xml": FileKind("XML", r".*\.(xml|sgml?)\n|.*\n<\?xml\s[^>]*\?>\s*<"),
}
"""Kinds by their names, in the order in which they are tried."""


def kind_of(name: str, start: bytes) -> str:
    """Return the kind of a file by its name and first bytes; "text" if it has no other."""
    start = start.removeprefix(BOM)
    subject = f"{name.lower().removesuffix('.gz')}\n{start.decode('latin-1')}"
    kinds = (kind for kind, form in KINDS.items() if re.match(form.pattern, subject))
    return next(kinds, "text")


def input_kind(path: Path, readable: Collection[str] = (*LINES, "html", "xml")) -> str:
    """Return how a file is read, one of the `readable` kinds. Raises DataError for others."""
    kind = kind_of(path.name, file_head(path))
    if kind not in readable:
        as_lines = ", or give `input=text` to translate every line as it stands"
        may_be_lines = KINDS[kind].remedy == _TO_TEXT
        raise DataError(f"{path}: {why_refused(kind)}{as_lines * may_be_lines}")
    return kind


def why_refused(kind: str) -> str:
    """Return what a file of a kind is that is not read, and what to do with it."""
    description, _, remedy = KINDS[kind]
    return f"is {description}, which is not translated as it is; {remedy}"


def file_head(path: Path) -> bytes:
    """Return the first bytes of a file; empty if it is no regular file or cannot be read."""
    # The reader of the lines reports the errors that are suppressed here.
    with contextlib.suppress(OSError, EOFError, ValueError, zlib.error):
        if path.is_file():
            with (
                path.open("rb") as raw,
                gzip.open(raw, "rb") if path.name.endswith(".gz") else raw as file,
            ):
                return file.read(HEAD_BYTES)
    return b""
