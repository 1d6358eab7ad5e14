"""Delimited text: how a TSV or CSV file separates and quotes its fields, and which of its columns
are the pair.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.data.languages import named_code
from regard.data.text import READ_LINE

HEAD = 1000  # lines that the dialect of a file is inferred from
_NAMES = (
    "source src target tgt trg translation text sentence input output english german french "
    "spanish italian portuguese dutch swedish polish czech russian turkish arabic hindi chinese "
    "japanese korean vietnamese"
)
_NUMBER = re.compile(r"[\d.,:%+-]*")


@dataclass
class Dialect:
    """The separator of fields, whether quotes enclose them (None: no quote was met yet), and what
    the columns are.
    """

    delimiter: str
    width: int = 2
    quoted: bool | None = True
    columns: Sequence[int] = (0, 1)
    names: Sequence[str] = ()  # of these columns, if line 1 holds them

    def records(self, lines: Iterator[str]) -> Iterator[tuple[str, int]]:
        """Yield each record and its number of lines: a quoted field may hold line breaks."""
        for line in lines:
            if self.quoted is None and '"' in line:
                self.quoted = self.is_quoted([(line, 1)])
            parts = [line]
            size = len(line)
            is_open = (
                self.quoted
                and line.count('"') % 2 > 0
                and f'{self.delimiter}"' in self.delimiter + line
            )
            while (
                is_open
                and size <= READ_LINE
                and (following := next(lines, None)) is not None
            ):
                parts.append(following)
                size = size + len(following) + 1
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
        """Return each field, a quoted one as the first and others as the second; none if a quote is
        misplaced.
        """
        end = re.escape(self.delimiter)
        cells = re.findall(
            rf'(?:^|{end})(?:("[^"]*(?:""[^"]*)*")|((?:[^"{end}][^{end}]*)?))(?={end}|\Z)',
            record,
        )
        return (
            cells
            if sum(len(a) + len(b) + 1 for a, b in cells) == len(record) + 1
            else []
        )

    def pair(self, record: str) -> tuple[str, str] | str:
        """Return both sides of a record, or what is wrong with it."""
        if len(fields := self.fields(record)) == self.width:
            return fields[self.columns[0]], fields[self.columns[1]]
        wanted = f"{self.width} fields"
        if self.quoted:
            wanted += ", each quoted as a whole or not at all"
        wanted = (
            wanted
            if self.quoted or self.width > 2
            else "one tab between source and target"
        )
        return f"do not hold exactly {wanted}; correct them, or give two files"

    def notes(self) -> list[str]:
        """Return what to know of how the pairs were read."""
        unquoted = [
            "fields stood in quotation marks, as spreadsheets write them; these were removed"
        ]
        skipped = [
            f"line 1 names the columns ({', '.join(self.names)}) and was skipped"
        ]
        columns = [
            f"columns {self.columns[0] + 1} and {self.columns[1] + 1} of {self.width} were read"
        ]
        quoted = self.quoted is True and self.delimiter == "\t"
        return (
            unquoted * quoted + skipped * bool(self.names) + columns * (self.width > 2)
        )

    def is_quoted(
        self, records: Sequence[tuple[str, int]], whole: bool = False
    ) -> bool | None:
        """Return whether a program that writes tables put the quotes there, and not an author;
        None: there are none.

        It quotes all fields, or those that hold a quote, the separator, a line break or (Excel) a
        comma. What it does to all of a kind is seen in the `whole` beginning only.
        """
        rows = [self.cells(record) for record, _ in records if '"' in record]
        quoted = [field[1:-1] for row in rows for field, _ in row if field]
        plain = [field for record, _ in records for _, field in self.cells(record)]
        if not rows:
            return None
        if any(len(row) != self.width for row in rows) or any(
            '"' in field for field in plain
        ):
            return False
        if any(
            count > 1 and record.count(self.delimiter) >= count * (self.width - 1)
            for record, count in records
        ):
            return False  # these lines are pairs as they are
        commas = (
            len(quoted) > 2
            and all("," in field for field in quoted)
            and not any("," in field for field in plain)
        )
        all_quoted = whole and (commas or all(map(_NUMBER.fullmatch, plain)))
        return all_quoted or any(
            re.search(f'""|\n|{self.delimiter}', field) for field in quoted
        )


def infer_dialect(head: Sequence[str], delimiters: str) -> Dialect:
    """Infer the dialect of a file from its first lines, with the delimiter that most of them agree
    on.
    """
    bare = [re.sub('"[^"]*"', "", line) for line in head if line.strip()] or [""]
    often = {
        delimiter: Counter(line.count(delimiter) for line in bare).most_common(1)[0]
        for delimiter in delimiters
    }
    delimiter = max(
        delimiters,
        key=lambda mark: (often[mark][1] if often[mark][0] else 0, -often[mark][0]),
    )
    dialect = Dialect(delimiter, max(often[delimiter][0], 1) + 1)
    records = [*dialect.records(iter(head))][: -1 if len(head) == HEAD else None]
    if delimiter == "\t":
        dialect.quoted = dialect.is_quoted(records, whole=True)
    rows = [
        row
        for record, _ in records
        if len(row := dialect.fields(record)) == dialect.width
    ]
    columns = [
        c
        for c in range(dialect.width)
        if not all(_NUMBER.fullmatch(row[c]) for row in rows[1:])
    ]
    dialect.columns = columns[:2] if len(columns) > 1 else (0, 1)
    names, *pairs = [[row[c].strip() for c in dialect.columns] for row in rows] or [
        [""]
    ]
    if (
        pairs
        and len({*map(str.lower, names)}) == 2
        and dialect.fields(head[0]) == rows[0]
    ):
        # "it" and "es" are codes of languages, and words that translate each other: among such
        # pairs they are words.
        words = [
            pair
            for pair in [names, *pairs]
            if re.fullmatch("[a-z]{2,3} [a-z]{2,3}", " ".join(pair))
        ]
        parts = [part for name in names for part in re.split("[ _]", name.lower())]
        if all(named_code(part) or part in _NAMES.split() for part in parts) and (
            names not in words or len(words) == 1
        ):
            dialect.names = names
    return dialect
