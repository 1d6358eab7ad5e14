"""File formats of sentence pairs, of captions and of texts to translate: how they are recognised,
and what reads them.
"""

from __future__ import annotations

import contextlib
import gzip
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

from regard.common.counting import counted
from regard.common.errors import DataError, UsageError
from regard.common.reading import parse_json
from regard.data.caption_formats import (
    CSV_HEADER,
    CaptionRow,
    CaptionRows,
    read_csv,
    read_flickr_tokens,
    read_json,
    read_tabs,
    truncated,
)
from regard.data.delimited import HEAD, infer_dialect
from regard.data.pairs import Dropped, format_lines
from regard.data.text import CUT, JSON_SIZE, MAX_LINE, LineReader, data_path

Row = tuple[str, str]
"""Source and target as they were read."""
SKIPPED = "", CUT + CUT
"""Stands for a line that is no pair: a header, or a further line of a pair that spans several."""
ReadRows = Callable[[Iterator[str], list[str]], Iterator[tuple[Row | str, int]]]
"""Reads pairs from lines: yields both sides of each, or what is wrong with it, and its number of
lines. At the end sentences on how the pairs were read are added to the list.
"""


@dataclass(frozen=True)
class PairFiles:
    """The files of a corpus: two files of lines, or one TSV, CSV or JSONL file."""

    source: str | Path | None = None
    target: str | Path | None = None
    pairs: str | Path | None = None
    max_line: int = MAX_LINE
    """Maximum number of characters of a line, or of both sides together in a file of pairs; longer
    lines are skipped.
    """

    def __post_init__(self) -> None:
        if self.pairs is None and (self.source is None or self.target is None):
            raise UsageError(
                "pairs come from a source and a target file, or from one file of pairs; give one "
                "or the other"
            )

    @property
    def paths(self) -> dict[str, Path]:
        """Each file by its role: "source" and "target", or "pairs"."""
        if self.pairs is not None:
            return {"pairs": data_path(self.pairs)}
        return {
            "source": data_path(str(self.source)),
            "target": data_path(str(self.target)),
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The paths as they were given."""
        if self.pairs is not None:
            return (str(self.pairs),)
        return str(self.source), str(self.target)


class PairReader:
    """Reads the raw pairs of a corpus line by line; a line that is no pair is `SKIPPED`.

    After the last pair, `count` is the number of lines and `notes` describes the repairs. All that
    is wrong with the files is raised then, in one DataError.
    """

    def __init__(self, files: PairFiles) -> None:
        self.files = files
        self.count = 0
        self.notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Row]:
        size, read = _pairs_format(str(self.files.pairs))
        readers = [
            LineReader(path, size * self.files.max_line, skip_long=True)
            for path in self.files.paths.values()
        ]
        if len(readers) == 1:
            yield from self._read_pairs_file(readers[0], read)
        else:
            yield from self._read_two_files(*readers)
        self.count = readers[0].count
        notes = [note for reader in readers for note in reader.notes]
        self.notes = (*notes, *self.notes)

    def _read_two_files(self, source: LineReader, target: LineReader) -> Iterator[Row]:
        source_lines = iter(source)
        target_lines = iter(target)
        yield from zip(source_lines, target_lines, strict=False)
        # The longer file is read to its end, to count its lines and to find all that is wrong.
        deque(source_lines, maxlen=0)
        deque(target_lines, maxlen=0)
        DataError.raise_all(source.causes + target.causes)
        if source.count != target.count:
            raise DataError(
                f"{self.files.source} has {source.count:,} lines but {self.files.target} has "
                f"{target.count:,}; line n of one must translate line n of the other: check for a "
                "stray line break or a missing line"
            )

    def _read_pairs_file(self, reader: LineReader, read: ReadRows) -> Iterator[Row]:
        path = self.files.pairs
        notes = list[str]()
        unusable = dict[str, Dropped]()
        number = 1
        for row, count in read(iter(reader), notes):
            if isinstance(row, str):
                unusable.setdefault(row, Dropped()).add(number)
            elif not unusable:
                # Only the texts count, because JSON is longer than they are.
                is_long = sum(map(len, row)) > self.files.max_line
                yield (CUT, CUT) if is_long else row
                yield from [SKIPPED] * (count - 1)
            number += count

        self.notes = tuple(f"{path}: {note}" for note in notes)
        DataError.raise_all(reader.causes)
        causes = []
        for reason, dropped in unusable.items():
            numbers = format_lines(dropped.lines, dropped.count)
            causes.append(f"{path}: {_count_lines(dropped.count, reason)}{numbers}")
        DataError.raise_all(causes)


def _count_lines(count: int, reason: str) -> str:
    """Say how many lines are unusable, and the reason, which begins with a verb in the plural."""
    verb, _, predicate = reason.partition(" ")
    singular_forms = {"do": "does", "are": "is", "lack": "lacks", "hold": "holds"}
    singular = singular_forms.get(verb, verb)
    return counted(count, f"line {singular} {predicate}", f"lines {reason}")


def _read_json_lines(
    lines: Iterator[str], _: list[str]
) -> Iterator[tuple[Row | str, int]]:
    for line in lines:
        yield _row(line, _parse_json), 1


def _read_delimited(
    lines: Iterator[str], notes: list[str], delimiters: str
) -> Iterator[tuple[Row | str, int]]:
    head = [*islice(lines, HEAD)]
    dialect = infer_dialect(head, delimiters)
    records = dialect.records(chain(head, lines))
    if dialect.names:
        yield SKIPPED, next(records)[1]
    for record, count in records:
        yield _row(record, dialect.pair), count
    notes += dialect.notes()


def _row(record: str, parse: Callable[[str], Row | str]) -> Row | str:
    """Return both sides of a record, or what is wrong with it."""
    if CUT in record:
        return CUT, CUT
    return parse(record) if record.strip() else ("", "")


def _parse_json(line: str) -> Row | str:
    """Parse a line of JSON; return both sides, or what is wrong with the line."""
    try:
        row = parse_json(line)
    except ValueError:
        return 'are not JSON; write one object per line, such as {"source": "…", "target": "…"}'
    if not isinstance(row, dict) or not all(
        isinstance(row.get(key), str) for key in ("source", "target")
    ):
        return "lack a text under the key source or target; give both"
    if "\0" in row["source"] + row["target"]:
        return "hold a NUL character; remove it"
    return row["source"], row["target"]


@dataclass(frozen=True)
class FileFormat:
    """A format of files of pairs, which are recognised by their names, and of caption files, which
    are recognised by their content.
    """

    first_line: str
    """Pattern of the beginning of the first line that is not empty."""
    read_captions: Callable[..., CaptionRows | None]
    """Called with the lines, the match of the pattern and the splits to read; returns None if the
    content has another format after all.
    """
    read_pairs: ReadRows | None = None
    name: str = ""
    """Pattern of the end of the name of a file of pairs."""
    characters: int = 1
    """Maximum number of characters of a line for one character of text."""


FORMATS = (
    FileFormat(
        first_line=r"\s*[{\[]",
        read_captions=read_json,
        read_pairs=_read_json_lines,
        name=r"\.(jsonl|ndjson|json)(\.gz)?\Z",
        characters=JSON_SIZE,
    ),
    FileFormat(
        first_line=CSV_HEADER,
        read_captions=read_csv,
        read_pairs=partial(_read_delimited, delimiters=";,\t"),
        name=r"(?i)\.csv(\.gz)?\Z",
    ),
    FileFormat(first_line=r"[^\t]+#\d+\t", read_captions=read_flickr_tokens),
    FileFormat(
        first_line=r"[^\t]*\t",
        read_captions=read_tabs,
        read_pairs=partial(_read_delimited, delimiters="\t"),
    ),
)
"""Formats of pairs and captions, in the order in which they are tried."""
_HEAD = 1 << 18  # bytes of a file that are read
_PROLOGUE = r"\s*(<[?!][^>]*>\s*)*?"
_TEXTS = {
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


def _pairs_format(name: str) -> tuple[int, ReadRows]:
    """Return how many characters of a file of pairs hold one of text, and what reads it."""
    return next(
        (form.characters, form.read_pairs)
        for form in FORMATS
        if form.read_pairs is not None and re.search(form.name, name)
    )


def read_caption_rows(
    lines: Sequence[str], path: Path, splits: Sequence[str]
) -> tuple[str, str, list[CaptionRow]]:
    """Return the format of a caption file, the word for one of its entries, and the entries; of a
    file with splits, only those of `splits`.

    Raises DataError with all causes.
    """
    number, first = next(
        ((n, line) for n, line in enumerate(lines, 1) if line.strip()), (1, "")
    )
    for form in FORMATS:
        match = re.match(form.first_line, first)
        contents = form.read_captions(lines, match, splits) if match else None
        if contents is not None:
            kind, unit, entries = contents
            rows = list[CaptionRow]()
            problems = list[str]()
            for entry in entries:
                if isinstance(entry, str):
                    problems.append(f"{path}: {entry}")
                else:
                    rows.append(entry)
            DataError.raise_all(truncated(problems))
            return kind, unit, rows
    raise DataError(
        f"{path}: line {number} holds no tab ({first[:40]!r}); wanted lines of file, tab, "
        "caption; or name.jpg#0, tab, caption (Flickr8k); or CSV below a line image,caption; "
        "or the JSON of COCO or Karpathy; or one JSON object a line with image and caption"
    )


def input_kind(path: Path) -> str:
    """Return how a file is read: text, jsonl, html or xml. Raises DataError for other formats."""
    start = _head(path).removeprefix(b"\xef\xbb\xbf")
    subject = f"{path.name.lower().removesuffix('.gz')}\n{start.decode('latin-1')}"
    kinds = (kind for kind, pattern in _TEXTS.items() if re.match(pattern, subject))
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
