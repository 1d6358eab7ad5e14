"""Formats of files that are not lines of text, recognised by their names and first bytes."""

from __future__ import annotations

import contextlib
import gzip
import re
import zlib
from pathlib import Path

from regard.common.errors import DataError

_HEAD = 1 << 18  # bytes of a file that are read
_BINARY = {
    "a Word document": "docx?|docm",
    "a spreadsheet, another office document or an e-book": "xls[xmb]?|od[pst]|pptx?|epub|mobi|azw3",
    "a PDF": "pdf",
    "an image": "png|jpe?g|gif|webp|bmp|tiff?",
    "an audio or video file": "mp[34]|wav|flac|ogg|m4a|mkv|webm",
}
"""Endings of the names of binary files, as patterns, by format."""
_PROLOGUE = r"\s*(<[?!][^>]*>\s*)*?"
_MARKED = {
    "a PDF": r".*\n%PDF-\d",
    "RTF": r".*\.rtf\n|.*\n\{\\rtf\d",
    "LaTeX": r".*\.(tex|latex|ltx)\n|.*\n\s*\\documentclass\b",
    "Markdown": r"(?m).*\.(md|markdown|mdx)\n"
    r"(---\s*$|(?s:.*?)(^[ \t]*(```|~~~|#{1,6} |> |[-*+] |\d+\. |\|.*\|)|\]\(|"
    r"\]\[|\]: |`[^`\n]+`|\*\S|^(===|---)|</?\w+>))",
    "reStructuredText or AsciiDoc": r".*\.(rst|adoc|asciidoc)\n",
    "a message catalogue (PO)": r'.*\.pot?\n|.*\n(#.*\n|\s)*msgid ".*"\r?\n("|msgstr)',
    "a translation file (XLIFF, TMX or TS)": r".*\.(\w*xliff|xlf|tmx)\n|"
    rf".*\n{_PROLOGUE}<(xliff|tmx|TS)[\s>]",
    "a subtitle file": r".*\.(srt|vtt|ass|ssa|sub|sbv|lrc)\n|"
    r".*\n(WEBVTT(\s*\n|.*\n\s)|\[Script Info\]|"
    r"\d+\s*\n\d+:\d\d:\d\d,\d+ --> )",
    "a file of JSON, YAML or TOML": r".*\.(json|arb|ipynb|ya?ml|toml)\n",
    "a message file": r".*\.(properties|strings|stringsdict|xcstrings|resx|ftl)\n",
    "USFM": r".*\.u?sfm\n|.*\n\\id [0-9A-Z]{3}\b",
    "a table (`column=` translates a column of CSV)": r".*\.[ct]sv\n",
    "SVG": rf".*\.svg\n|.*\n{_PROLOGUE}<svg\s",
    "jsonl": r".*\.(jsonl|ndjson)\n",
    "html": rf"(?i).*\.x?html?\n|.*\n{_PROLOGUE}<(!doctype )?html[^>]*>\s*<[!a-z]",
    "xml": r".*\.(xml|sgml?)\n|.*\n<\?xml\s[^>]*\?>\s*<",
}
"""Formats whose lines may look like text, with patterns for a file's name, a line feed and its
first bytes. The formats that can be translated come last.
"""


def binary_kind(path: Path) -> str | None:
    """Return the end of a message that names the format of a binary file by its name; None if the
    name tells none.
    """
    suffix = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    for kind, suffixes in _BINARY.items():
        if re.fullmatch(suffixes, suffix):
            return f"is {kind}; Regard reads text: save it as plain text, a table as CSV UTF-8"
    return None


def input_kind(path: Path) -> str:
    """Return how a file is read: text, jsonl, html or xml. Raises DataError for other formats."""
    start = _head(path).removeprefix(b"\xef\xbb\xbf")
    subject = f"{path.name.lower().removesuffix('.gz')}\n{start.decode('latin-1')}"
    kinds = (kind for kind, pattern in _MARKED.items() if re.match(pattern, subject))
    kind = next(kinds, "text")
    if kind not in ("text", "jsonl", "html", "xml"):
        reason = f"is {kind}, not lines of text: save its sentences as plain text, one a line"
        raise DataError(
            f"{path}: {reason}, or give `input=text` to translate every line as it stands"
        )
    return kind


def holds_tabs(path: Path) -> bool:
    """Return whether most lines at the start of a file hold tabs, as in files of pairs and
    tables.
    """
    lines = _head(path).splitlines()
    return sum(b"\t" in line.strip() for line in lines) > len(lines) / 2


def _head(path: Path) -> bytes:
    """Return the first bytes of a file; empty if it is no regular file or cannot be read."""
    # The reader of the lines reports the errors that are suppressed here.
    with contextlib.suppress(OSError, EOFError, ValueError, zlib.error):
        if path.is_file():
            with (
                path.open("rb") as raw,
                gzip.open(raw, "rb") if path.name.endswith(".gz") else raw as file,
            ):
                return file.read(_HEAD)
    return b""
