"""File formats of sentence pairs, of captions and of texts to translate: how they are recognised,
and what reads them.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.common.counting import counted
from regard.common.errors import DataError, RegardError, UsageError
from regard.common.reading import parse_json
from regard.data.caption_formats import (
    CSV_HEADER,
    CaptionFile,
    CaptionRow,
    CaptionRows,
    read_csv,
    read_flickr_tokens,
    read_json,
    read_tabs,
    truncated,
)
from regard.data.caption_tables import (
    IsImage,
    choose_caption_columns,
    read_caption_table,
)
from regard.data.delimited import read_delimited
from regard.data.languages import Languages, languages_of_name
from regard.data.pair_corrections import Corrections
from regard.data.pairs import Dropped, format_lines
from regard.data.spreadsheets import MAX_BYTES, read_spreadsheet
from regard.data.table_columns import (
    HEAD,
    ColumnRequest,
    Columns,
    Record,
    Table,
    choose_columns,
    holds_names,
)
from regard.data.text import (
    BOM,
    CUT,
    JSON_SIZE,
    MAX_LINE,
    LineReader,
    data_path,
    read_file,
)
from regard.data.text_kinds import HEAD_BYTES, file_head
from regard.data.translation_files import read_po, read_po_flags, read_xml

Row = tuple[str, str]
"""Source and target as they were read."""
SKIPPED = "", CUT + CUT
"""Stands for a line that is no pair: a header, or a further line of a pair that spans several."""
OpenTable = Callable[[LineReader], Table]
"""Opens a file as a table."""
_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
"""The beginning of an array of objects."""
_SPREADSHEET = re.compile(r"(?i)(.+\.(?:xls[xmb]?|ods))(?:#.*)?")
"""The name of a spreadsheet, which that of a sheet may follow."""


@dataclass(frozen=True)
class PairFiles:
    """The files of a corpus: two files of lines, or one table, such as TSV, CSV or JSONL."""

    source: str | Path | None = None
    target: str | Path | None = None
    pairs: str | Path | None = None
    max_line: int = MAX_LINE
    """Maximum number of characters of a line, or of both sides together in a file of pairs; longer
    lines are skipped.
    """
    columns: str = ""
    """Names or numbers of the columns of both sides, such as English,hsb; to be found if empty."""
    languages: Languages = field(default_factory=Languages)
    """The languages by which columns are chosen."""
    corrections: str | None = None
    """A table of suspect pairs with corrections (`Corrections`)."""

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
            return {"pairs": data_path(table_path(str(self.pairs)))}
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
    is wrong with the files is raised then, in one DataError. The `columns` of a table are known
    with the first pair. Pairs are corrected by the table of corrections, if there is one; their
    lines are `corrected` then.
    """

    def __init__(self, files: PairFiles) -> None:
        self.files = files
        self.count = 0
        self.notes: tuple[str, ...] = ()
        self.columns = Columns()
        self.corrected = set[int]()

    def __iter__(self) -> Iterator[Row]:
        name = self.files.corrections
        if name is None:
            yield from self._read()
            return
        corrections = Corrections(name)
        for line, row in enumerate(self._read(), 1):
            corrected = corrections.of(line, row)
            if corrected is not None:
                self.corrected.add(line)
            yield corrected or row
        self.notes = (*self.notes, *corrections.notes())

    def _read(self) -> Iterator[Row]:
        if self.files.pairs is not None:
            yield from self._read_table(str(self.files.pairs))
            return
        readers = [
            LineReader(path, self.files.max_line, skip_long=True)
            for path in self.files.paths.values()
        ]
        yield from self._read_two_files(*readers)
        self.count = readers[0].count
        self.notes = tuple(note for reader in readers for note in reader.notes)

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
                f"{self.files.source} has {counted(source.count, 'line')} but "
                f"{self.files.target} has {target.count:,}; line n of one must translate "
                "line n of the other: check for a stray line break or a missing line"
            )

    def _read_table(self, name: str) -> Iterator[Row]:
        reader, table = open_table(name, self.files.max_line)
        request = ColumnRequest(
            self.files.columns,
            self.files.languages,
            languages_of_name(table_path(name)),
        )
        if max(map(len, table.rows), default=0) < 2:
            DataError.raise_all(reader.causes)
        self.columns = choose_columns(table, request, name)
        records = table.records
        has_header = bool(self.columns.names) and not table.has_names
        number = table.skipped
        yield from [SKIPPED] * number
        unusable = dict[str, Dropped]()
        for record, count in records:
            row = SKIPPED if has_header else self._row(record)
            if isinstance(row, str):
                unusable.setdefault(row, Dropped()).add(number + 1)
            elif not unusable:
                yield row
                yield from [SKIPPED] * (count - 1)
            has_header = False
            number += count

        self.count = number
        DataError.raise_all(reader.causes)
        notes = [*table.notes(), *self.columns.notes]
        self.notes = (*reader.notes, *(f"{name}: {note}" for note in notes))
        causes = []
        for reason, dropped in unusable.items():
            numbers = format_lines(dropped.lines, dropped.count)
            causes.append(f"{name}: {_count_lines(dropped.count, reason)}{numbers}")
        DataError.raise_all(causes)

    def _row(self, record: Record) -> Row | str:
        """Return both sides of a record, or what is wrong with it."""
        if isinstance(record, str):
            return record
        if not record:
            return SKIPPED
        source, target = record[self.columns.source], record[self.columns.target]
        if source is None or target is None:
            keys = " or ".join(self.columns.names)
            return f"lack a text under the key {keys}; give both"
        # Only the texts count, because JSON is longer than they are.
        is_long = len(source) + len(target) > self.files.max_line
        return (CUT, CUT) if is_long else (source, target)


def open_table(name: str, max_line: int = MAX_LINE) -> tuple[LineReader, Table]:
    """Open a file of pairs, or a table, by its name, which may end in that of a sheet; in the end
    the reader knows what is wrong with the file.
    """
    path = table_path(name)
    sheet = name.removeprefix(path).removeprefix("#")
    form = _format_of(path)
    reader = LineReader(path, form.characters * max_line, skip_long=True)
    if _SPREADSHEET.fullmatch(path):
        return reader, read_spreadsheet(reader, sheet)
    assert form.open_table is not None
    return reader, form.open_table(reader)


def _format_of(path: str) -> FileFormat:
    """Return the format of a file of pairs by its name."""
    return next(
        form for form in FORMATS if form.open_table and re.search(form.name, path)
    )


def flags_of_pairs(files: PairFiles) -> dict[int, list[str]]:
    """Return the flags that a message catalogue gives its pairs, such as c-format, by line; none
    of other files.
    """
    name = str(files.pairs or "")
    if _format_of(name).open_table is not read_po:
        return {}
    return read_po_flags(LineReader(name, skip_long=True))


def is_table(name: str) -> bool:
    """Return whether the name of a file says that it holds a table, JSON lines aside."""
    path = table_path(name)
    names = [form.name for form in FORMATS if form.open_table and form.characters == 1]
    patterns = [*filter(None, names), _SPREADSHEET.pattern, r"(?i)\.txt(\.gz)?\Z"]
    return any(re.search(pattern, path) for pattern in patterns)


def holds_pairs(name: str) -> bool:
    """Return whether the name of a file says that it holds pairs, and not lines of text."""
    names = [form.name for form in FORMATS if form.name]
    patterns = [*names, _SPREADSHEET.pattern]
    return any(re.search(pattern, table_path(name)) for pattern in patterns)


def table_path(name: str) -> str:
    """Return the name of a file without that of a sheet, as in words.xlsx#Sheet1."""
    match = _SPREADSHEET.fullmatch(name)
    return match[1] if match else name


def languages_of_pairs(files: PairFiles) -> Languages:
    """Return the languages of a file of pairs: those that its columns name, or else its name.

    A file that cannot be read yet, or only once, has those of its name.
    """
    named = languages_of_name(table_path(str(files.pairs)))
    path = next(iter(files.paths.values()))
    if isinstance(path, Path) and not path.is_file():
        return named
    reader = PairReader(files)
    with contextlib.suppress(RegardError, OSError):
        next(iter(reader), None)
    return Languages(
        source=reader.columns.languages.source or named.source,
        target=reader.columns.languages.target or named.target,
    )


def _count_lines(count: int, reason: str) -> str:
    """Say how many lines are unusable, and the reason, which begins with a verb in the plural."""
    verb, _, predicate = reason.partition(" ")
    singular_forms = {"do": "does", "are": "is", "lack": "lacks", "hold": "holds"}
    singular = singular_forms.get(verb, verb)
    return counted(count, f"line {singular} {predicate}", f"lines {reason}")


def _read_json(reader: LineReader) -> Table:
    """Read JSON lines, or one array of such objects, whose numbers are then those of the lines."""
    start = next(reader.read(lambda file: iter([file.read(HEAD_BYTES)])), b"")
    if not _ARRAY.match(start):
        return _read_json_lines(reader)
    content = next(reader.read(lambda file: iter([file.read(MAX_BYTES + 1)])), b"")
    if len(content) > MAX_BYTES:
        raise DataError(
            f"{reader.path}: is an array of more than {MAX_BYTES >> 20} MB; write one object a line"
        )
    try:
        values = parse_json(content.removeprefix(BOM))
    except ValueError as problem:
        raise DataError(
            f"{reader.path}: begins like an array of JSON, and is none ({problem}); write it "
            "again, or one object a line"
        ) from None
    return _read_json_lines(map(json.dumps, values))


def _read_json_lines(lines: Iterable[str]) -> Table:
    """Read JSON lines with the keys source and target, or with two keys that are languages, at the
    top or under the key translation.
    """
    stream = iter(lines)
    head = [*islice(stream, HEAD)]
    objects = [value for line in head if isinstance(value := _json_object(line), dict)]
    keys = [
        key
        for key in dict.fromkeys(chain.from_iterable(objects))
        if any(isinstance(value.get(key), str) for value in objects)
    ]
    rows = [[f"{value.get(key, '')}" for key in keys] for value in objects]
    if not holds_names([keys, *rows]):
        keys = ["source", "target", *keys]
        rows = []
    records = ((_json_row(line, keys), 1) for line in chain(head, stream))
    return Table([keys, *rows], records, has_names=True)


def _json_row(line: str, keys: Sequence[str]) -> list[str | None] | str:
    """Return the texts of a line of JSON, None where there is none, or what is wrong with it."""
    if CUT in line or not line.strip():
        return [CUT if CUT in line else ""] * len(keys)
    values = _json_object(line)
    if isinstance(values, str):
        return values
    texts = [values.get(key) for key in keys]
    if any(isinstance(text, str) and "\0" in text for text in texts):
        return "hold a NUL character; remove it"
    return [text if isinstance(text, str) else None for text in texts]


def _json_object(line: str) -> dict[str, Any] | str:
    """Parse an object, and lift what is under its key translation; return else what is wrong."""
    try:
        value = parse_json(line)
    except ValueError:
        return 'are not JSON; write one object per line, such as {"source": "…", "target": "…"}'
    if not isinstance(value, dict):
        return {}
    texts = value.get("translation")
    return value | texts if isinstance(texts, dict) else value


@dataclass(frozen=True)
class FileFormat:
    """A format of files of pairs, which are recognised by their names, and of caption files, which
    are recognised by their content.
    """

    first_line: str = r"(?!)"
    """Pattern of the beginning of the first line that is not empty, of a caption file."""
    read_captions: Callable[..., CaptionRows | None] = read_tabs
    """Called with the lines, the match of the pattern and the splits to read; returns None if the
    content has another format after all.
    """
    open_table: OpenTable | None = None
    name: str = ""
    """Pattern of the end of the name of a file of pairs."""
    characters: int = 1
    """Maximum number of characters of a line for one character of text."""


FORMATS = (
    FileFormat(
        first_line=r"\s*[{\[]",
        read_captions=read_json,
        open_table=_read_json,
        name=r"\.(jsonl|ndjson|json)(\.gz)?\Z",
        characters=JSON_SIZE,
    ),
    FileFormat(
        first_line=CSV_HEADER,
        read_captions=read_csv,
        open_table=partial(read_delimited, delimiters=";,\t", may_be_single=True),
        name=r"(?i)\.csv(\.gz)?\Z",
    ),
    FileFormat(
        open_table=partial(read_delimited, delimiters="\t", may_be_single=True),
        name=r"(?i)\.tsv(\.gz)?\Z",
    ),
    FileFormat(open_table=read_xml, name=r"(?i)\.(tmx|xlf|\w*xliff)(\.gz)?\Z"),
    FileFormat(open_table=read_po, name=r"(?i)\.pot?(\.gz)?\Z"),
    FileFormat(first_line=r"[^\t]+#\d+\t", read_captions=read_flickr_tokens),
    FileFormat(open_table=partial(read_delimited, delimiters="\t")),
)
"""Formats of pairs and captions, in the order in which they are tried."""
MAX_JSON = 1 << 28  # characters of a line, since COCO JSON is one line


def read_caption_rows(
    path: Path, splits: Sequence[str], columns: str, is_image: IsImage
) -> CaptionFile:
    """Read the entries of a caption file; of a file with splits, only those of `splits`.

    The `columns` of a table are found by `is_image` if they are empty. Raises DataError with all
    causes.
    """
    name = str(path)
    if _SPREADSHEET.fullmatch(name):
        reader, table = open_table(name)
        if not table.rows:
            DataError.raise_all(reader.causes)
        chosen = choose_caption_columns(table.rows, columns, is_image, name)
        contents = read_caption_table(table, chosen)
        DataError.raise_all(reader.causes)
    else:
        text_file = read_file(path, MAX_JSON)
        contents = _read_caption_lines(text_file.lines, path, splits, columns, is_image)
        contents = replace(contents, notes=(*text_file.notes, *contents.notes))
    DataError.raise_all(truncated([f"{path}: {text}" for text in contents.problems]))
    return contents


def _read_caption_lines(
    lines: Sequence[str],
    path: Path,
    splits: Sequence[str],
    columns: str,
    is_image: IsImage,
) -> CaptionFile:
    number, first = next(
        ((n, line) for n, line in enumerate(lines, 1) if line.strip()), (1, "")
    )
    for form in () if columns else FORMATS:
        match = re.match(form.first_line, first)
        contents = form.read_captions(lines, match, splits) if match else None
        if contents is not None:
            return _caption_file(contents)

    has_tabs = "\t" in first
    table = read_delimited(lines[number - 1 :], "\t" if has_tabs else ",;|")
    try:
        chosen = choose_caption_columns(table.rows, columns, is_image, str(path))
    except DataError:
        is_csv = re.search(r"(?i)\.csv(\.gz)?\Z", path.name)
        if columns or is_csv or (has_tabs and len(table.rows[0]) > 2):
            raise
        chosen = None
    is_plain = has_tabs and len(table.rows[0]) == 2
    if has_tabs and (chosen is None or (is_plain and chosen.file == 0)):
        return _caption_file(read_tabs(lines))
    if chosen is not None:
        return read_caption_table(table, chosen, number)
    raise DataError(
        f"{path}: line {number} holds no tab ({first[:40]!r}); wanted lines of file, tab, "
        "caption; or name.jpg#0, tab, caption (Flickr8k); or a table (CSV, XLSX, ODS) with a "
        "column of image files and one of captions; or the JSON of COCO or Karpathy; or one JSON "
        "object a line with image and caption"
    )


def _caption_file(contents: CaptionRows) -> CaptionFile:
    kind, unit, entries = contents
    rows = list[CaptionRow]()
    problems = list[str]()
    for entry in entries:
        if isinstance(entry, str):
            problems.append(entry)
        else:
            rows.append(entry)
    return CaptionFile(kind, unit, rows, problems)


def holds_tabs(path: Path) -> bool:
    """Return whether most lines at the start of a file hold tabs, as in files of pairs and
    tables.
    """
    lines = file_head(path).splitlines()
    return sum(b"\t" in line.strip() for line in lines) > len(lines) / 2
