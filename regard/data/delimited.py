"""Delimited text: infer how a TSV or CSV file separates and quotes its fields, and which two
columns hold the pair.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.data.languages import named_code
from regard.data.text import READ_LINE

HEAD = 1000
"""Lines from which the dialect of a file is inferred."""
_COLUMN_NAMES = (
    "source src target tgt trg translation text sentence input output english german french "
    "spanish italian portuguese dutch swedish polish czech russian turkish arabic hindi chinese "
    "japanese korean vietnamese"
)
"""Words that name a column in a header, separated by spaces."""
_NUMBER = re.compile(r"[\d.,:%+-]*")


@dataclass
class Dialect:
    """The format of a delimited file, and the two columns that hold the pair."""

    delimiter: str
    width: int = 2  # number of fields
    # Whether quotes enclose fields; None before the first quote.
    quoted: bool | None = True
    columns: Sequence[int] = (0, 1)
    names: Sequence[str] = ()  # of these columns, if line 1 is a header

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

    def pair(self, record: str) -> tuple[str, str] | str:
        """Return both sides of a record, or what is wrong with it."""
        fields = self.fields(record)
        if len(fields) == self.width:
            return fields[self.columns[0]], fields[self.columns[1]]
        if self.quoted:
            wanted = f"{self.width} fields, each quoted as a whole or not at all"
        elif self.width > 2:
            wanted = f"{self.width} fields"
        else:
            wanted = "one tab between source and target"
        return f"do not hold exactly {wanted}; correct them, or give two files"

    def notes(self) -> list[str]:
        """Return sentences on how the pairs were read."""
        notes = []
        if self.quoted is True and self.delimiter == "\t":
            notes.append(
                "fields stood in quotation marks, as spreadsheets write them; these were removed"
            )
        if self.names:
            notes.append(
                f"line 1 names the columns ({', '.join(self.names)}) and was skipped"
            )
        if self.width > 2:
            source, target = (column + 1 for column in self.columns)
            notes.append(f"columns {source} and {target} of {self.width} were read")
        return notes

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
        quotes_text = all(_NUMBER.fullmatch(field) for field in plain)
        return whole and (quotes_commas or quotes_text)


def infer_dialect(head: Sequence[str], delimiters: str) -> Dialect:
    """Infer the dialect of a file from its first lines; most of them agree on its delimiter."""
    delimiter, width = _infer_delimiter(head, delimiters)
    dialect = Dialect(delimiter, width)
    records = list(dialect.records(iter(head)))
    if len(head) == HEAD:  # the last record may be incomplete
        records = records[:-1]
    if delimiter == "\t":
        dialect.quoted = dialect.is_quoted(records, whole=True)

    rows = [dialect.fields(record) for record, _ in records]
    rows = [row for row in rows if len(row) == width]
    text_columns = [
        column
        for column in range(width)
        if not all(_NUMBER.fullmatch(row[column]) for row in rows[1:])
    ]
    dialect.columns = text_columns[:2] if len(text_columns) > 1 else (0, 1)

    pairs = [[row[column].strip() for column in dialect.columns] for row in rows]
    if len(pairs) > 1 and dialect.fields(head[0]) == rows[0] and _has_header(pairs):
        dialect.names = pairs[0]
    return dialect


def _infer_delimiter(lines: Sequence[str], delimiters: str) -> tuple[str, int]:
    """Return the delimiter on whose count most lines agree, and the number of fields.

    Among delimiters on which equally many lines agree, the rarest is taken.
    """
    bare = [re.sub('"[^"]*"', "", line) for line in lines if line.strip()] or [""]
    counts = {}
    agreement = {}
    for delimiter in delimiters:
        frequencies = Counter(line.count(delimiter) for line in bare)
        count, agreeing = frequencies.most_common(1)[0]
        counts[delimiter] = count
        agreement[delimiter] = (agreeing if count else 0, -count)
    delimiter = max(delimiters, key=agreement.__getitem__)
    return delimiter, max(counts[delimiter], 1) + 1


def _has_header(pairs: Sequence[list[str]]) -> bool:
    """Return whether the first of the pairs holds the names of the columns."""
    names = pairs[0]
    if len({name.lower() for name in names}) != 2:
        return False
    parts = [part for name in names for part in re.split("[ _]", name.lower())]
    if not all(named_code(part) or part in _COLUMN_NAMES.split() for part in parts):
        return False
    # "it" and "es" are language codes, but also words that translate each other. They are words if
    # other pairs look like codes too.
    code_like = [
        pair for pair in pairs if re.fullmatch("[a-z]{2,3} [a-z]{2,3}", " ".join(pair))
    ]
    return names not in code_like or len(code_like) == 1
