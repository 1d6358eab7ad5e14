"""Delimited text: infer how a TSV or CSV file separates and quotes its fields."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import chain, groupby, islice

from regard.data.table_columns import HEAD, NUMBER, Table, holds_names
from regard.data.text import CUT, READ_LINE

_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?')
"""First line by which Excel knows the delimiter."""
_ANKI_LINE = re.compile(
    r"#(separator|html|columns|notetype|deck|tags|(?:guid|notetype|deck|tags) column):(.*)"
)
"""A line before the records in an export of Anki."""
_SEPARATORS = {
    "tab": "\t",
    "comma": ",",
    "semicolon": ";",
    "pipe": "|",
    "colon": ":",
    "space": " ",
}
"""Delimiters by Anki's names."""
_FALLBACK = ";|"
"""Delimiters of a file without tabs whose name does not say that it is CSV."""
NO_DELIMITER = "\x1f"
"""Delimiter of a table of one column, which no text has."""


@dataclass
class Dialect:
    """The format of a delimited file."""

    delimiter: str
    width: int = 2  # number of fields
    # Whether quotes enclose fields; None before the first quote.
    quoted: bool | None = True
    # Whether empty fields at the end of a record are left out.
    ragged: bool = False

    def records(self, lines: Iterator[str]) -> Iterator[tuple[str, int]]:
        """Yield each record and its number of lines, since a quoted field may hold line breaks."""
        for line in lines:
            if self.quoted is None and '"' in line:
                self.quoted = self.is_quoted([(line, 1)])
            parts = [line]
            size = len(line)
            begins_field = f'{self.delimiter}"' in self.delimiter + line
            is_open = self.quoted and line.count('"') % 2 > 0 and begins_field
            while is_open and size <= READ_LINE:
                following = next(lines, None)
                if following is None:
                    break
                parts.append(following)
                size += len(following) + 1
                is_open = following.count('"') % 2 == 0
            yield "\n".join(parts), len(parts)

    def fields(self, record: str) -> list[str]:
        """Return the fields of a record; none if a quote is misplaced."""
        if not self.quoted:
            return record.split(self.delimiter)
        return [
            quoted[1:-1].replace('""', '"') or plain
            for quoted, plain in self.cells(record)
        ]

    def cells(self, record: str) -> list[tuple[str, str]]:
        """Return each field as (quoted, plain), one of which is empty; return no fields if a quote
        is misplaced.
        """
        end = re.escape(self.delimiter)
        cells = re.findall(
            rf'(?:^|{end})(?:("[^"]*(?:""[^"]*)*")|((?:[^"{end}][^{end}]*)?))(?={end}|\Z)',
            record,
        )
        size = sum(len(quoted) + len(plain) + 1 for quoted, plain in cells)
        return cells if size == len(record) + 1 else []

    def row(self, record: str) -> list[str] | str:
        """Return the fields of a record, or what is wrong with it; there may be further, empty
        fields at its end.
        """
        if CUT in record or not record.strip():
            return [CUT if CUT in record else ""] * self.width
        fields = self.fields(record)
        while len(fields) > self.width and not fields[-1].strip():
            fields.pop()
        if self.ragged and 1 < len(fields) < self.width and fields[-1]:
            fields += [""] * (self.width - len(fields))
        if len(fields) == self.width:
            return fields
        if self.quoted:
            wanted = f"{self.width} fields, each quoted as a whole or not at all"
        elif self.width > 2:
            wanted = f"{self.width} fields"
        else:
            wanted = "one tab between source and target"
        return f"do not hold exactly {wanted}; correct the file, or give two files"

    def notes(self) -> list[str]:
        """Return a sentence on the quotes that were removed from TSV."""
        if self.quoted is not True or self.delimiter != "\t":
            return []
        return [
            "fields stood in quotation marks, as spreadsheets write them; these were removed"
        ]

    def is_quoted(
        self, records: Sequence[tuple[str, int]], whole: bool = False
    ) -> bool | None:
        """Return whether the quotes enclose fields, as programs write them, and are not part of the
        text; None if there are no quotes.

        Programs quote all fields, or the fields that hold a quote, the delimiter, a line break or
        (Excel) a comma. Whether all fields of a kind are quoted is only judged if `records` are the
        `whole` beginning of a file.
        """
        rows = [self.cells(record) for record, _ in records if '"' in record]
        if not rows:
            return None
        quoted = [field[1:-1] for row in rows for field, _ in row if field]
        plain = [field for record, _ in records for _, field in self.cells(record)]
        if any(len(row) != self.width for row in rows):
            return False
        if any('"' in field for field in plain):
            return False
        for record, count in records:
            # Each line of such a record is a complete pair without its quotes.
            if count > 1 and record.count(self.delimiter) >= count * (self.width - 1):
                return False

        if any(re.search(f'""|\n|{self.delimiter}', field) for field in quoted):
            return True
        quotes_commas = (
            len(quoted) > 2
            and all("," in field for field in quoted)
            and not any("," in field for field in plain)
        )
        quotes_text = all(NUMBER.fullmatch(field) for field in plain)
        return whole and (quotes_commas or quotes_text)


def read_delimited(
    lines: Iterable[str], delimiters: str, may_be_single: bool = False
) -> Table:
    """Read a table with one of the delimiters, or that which lines before it name, as programs such
    as Excel and Anki write them. `may_be_single`: it may have a single column.
    """
    stream = iter(lines)
    head = [*islice(stream, HEAD)]
    skipped, names, is_html = 0, dict[int, str](), False
    if head and (separator := _SEPARATOR_LINE.fullmatch(head[0])):
        skipped, delimiters = 1, separator[1]
    while skipped < len(head) and (match := _ANKI_LINE.fullmatch(head[skipped])):
        skipped += 1
        key, value = match.groups()
        if key == "separator":
            delimiters = _SEPARATORS.get(value.lower(), value[:1] or delimiters)
        elif key == "columns":
            names |= dict(enumerate(value.split(delimiters[0])))
        elif value.isdigit():
            names[int(value) - 1] = key.split()[0]
        is_html = is_html or (key == "html" and value == "true")

    head = head[skipped:]
    dialect, rows = infer_dialect(head, delimiters, may_be_single)

    def cells(row: list[str]) -> list[str]:
        return [*map(_without_marks, row)] if is_html else row

    rows = [*map(cells, rows)]
    if names:
        rows = [[names.get(column, "") for column in range(dialect.width)], *rows]
    fields = (
        (dialect.row(record), count)
        for record, count in dialect.records(chain(head, stream))
    )
    records = (
        (row if isinstance(row, str) else cells(row), count) for row, count in fields
    )
    return Table(rows, records, bool(names), skipped, dialect.notes)


def _without_marks(text: str) -> str:
    """Remove the marks of HTML, and the sounds, from a field of Anki."""
    text = re.sub(r"(?i)\[sound:[^]]*\]|</?(br|div|p|li|[uo]l|tr)\b[^>]*>", " ", text)
    return unescape(re.sub(r"</?[A-Za-z][^>]*>", "", text))


def infer_dialect(
    head: Sequence[str], delimiters: str, may_be_single: bool = False
) -> tuple[Dialect, list[list[str]]]:
    """Infer the dialect of a file from its first lines, most of which agree on its delimiter; also
    return their rows. The first row is empty if the first line is no row.
    """
    delimiter, width = _infer_delimiter(head, delimiters)
    if may_be_single and _is_single(head, delimiters):
        delimiter, width = NO_DELIMITER, 1
    dialect = Dialect(delimiter, width)
    records = list(dialect.records(iter(head)))
    if len(head) == HEAD:  # the last record may be incomplete
        records = records[:-1]
    if delimiter == "\t":
        dialect.quoted = dialect.is_quoted(records, whole=True)

    fields = [dialect.fields(record) for record, _ in records if record.strip()]
    first = fields[0] if fields else []
    if len(first) > width and all(first) and _lacks_empty_fields(fields, len(first)):
        wide = Dialect(delimiter, len(first), dialect.quoted, ragged=True)
        rows = _rows(wide, records)
        if holds_names(rows):
            return wide, rows
    is_rarely_short = 2 * sum(len(row) >= width for row in fields) > len(fields)
    dialect.ragged = is_rarely_short and _lacks_empty_fields(fields, width)
    return dialect, _rows(dialect, records)


def _lacks_empty_fields(rows: Sequence[Sequence[str]], width: int) -> bool:
    """Return whether rows are short since empty fields at their end are missing, and not since
    fields with line breaks stand without quotes.

    Such breaks make several short rows of one, which have together a field more for each break. The
    last field is then filled as often as others.
    """
    if any(len(row) == 1 for row in rows):
        return False
    runs = [
        [len(row) for row in run]
        for is_short, run in groupby(rows, lambda row: len(row) < width)
        if is_short
    ]
    broken = sum(sum(run) == width + len(run) - 1 for run in runs)
    filled = [bool(row[width - 1].strip()) for row in rows if len(row) >= width]
    return 2 * broken < len(runs) or 2 * sum(filled) < len(filled)


def _rows(dialect: Dialect, records: Sequence[tuple[str, int]]) -> list[list[str]]:
    rows = [dialect.row(record) for record, _ in records if record.strip(" \0")]
    complete = [row for row in rows if isinstance(row, list)]
    begins_with_row = records and complete and dialect.row(records[0][0]) == complete[0]
    return complete if begins_with_row else [[""] * dialect.width, *complete[1:]]


def _separates(delimiter: str, lines: Sequence[str]) -> bool:
    """Return whether nearly all records hold a delimiter, most of them as often as each other."""
    records = [record for record, _ in Dialect(delimiter).records(iter(lines))]
    counts = Counter(
        re.sub('"[^"]*"', "", record).count(delimiter)
        for record in records
        if record.strip()
    )
    total = sum(counts.values())
    return counts[0] < 0.1 * total and 2 * counts.most_common(1)[0][1] > total


def _is_single(lines: Sequence[str], delimiters: str) -> bool:
    """Return whether lines are one column: the first has no delimiter, and in most of them there is
    none but before a space, as in prose.
    """
    marks = re.escape(delimiters + _FALLBACK)
    bare = [re.sub('"[^"]*"', "", line) for line in lines if line.strip()] or [""]
    divided = sum(bool(re.search(rf"[{marks}](?! )", line)) for line in bare)
    return not re.search(f"[{marks}]", bare[0]) and 2 * divided < len(bare)


def _infer_delimiter(lines: Sequence[str], delimiters: str) -> tuple[str, int]:
    """Return the delimiter on whose count most lines agree, and the number of fields.

    Among delimiters on which equally many lines agree, the rarest is taken.
    """
    if delimiters == "\t" and not any("\t" in line for line in lines):
        delimiters = next((d for d in _FALLBACK if _separates(d, lines)), "\t")
    bare = [re.sub('"[^"]*"', "", line) for line in lines if line.strip()] or [""]

    def agreement(delimiter: str) -> tuple[int, int]:
        """Return how many lines agree on a count, and the count, negative."""
        counts = Counter(line.count(delimiter) for line in bare)
        count, agreeing = counts.most_common(1)[0]
        return agreeing if count else 0, -count

    delimiter = max(delimiters, key=agreement)
    return delimiter, max(-agreement(delimiter)[1], 1) + 1
