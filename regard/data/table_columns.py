"""Tables: their rows, and which two columns hold the pairs, by the names of the columns or by what
is in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from regard.common.errors import DataError
from regard.data.language_codes import base_language
from regard.data.languages import NO_LANGUAGES, Languages, language_called, named_code
from regard.data.text import clean

HEAD = 1000
"""Rows by which columns are chosen."""
MAX_COLUMNS = 1000
"""Maximum number of columns of a table."""
_SOURCE = "source src original input 원문"
_TARGET = (
    "target tgt trg translation output 번역 번역문 übersetzung traduction traducción"
)
_EITHER = "text texts sentence sentences string strings phrase phrases"
_OTHER = (
    "key keys id ids uid uuid guid identifier index nr no num number row line lang language locale "
    "comment comments note notes remark remarks context description status state approved "
    "reviewed author translator user date time created modified updated changed timestamp url "
    "link file filename path location tag tags type category domain licence license attribution "
    "deck notetype audio image length count score rank frequency section screen version max limit "
    "msgid resource char characters "
    "schlüssel kommentar bemerkung kontext datum clé commentaire clave comentario 키 번호 비고 "
    "설명 상태 메모"
)
_SIDES = {
    word: side
    for side, words in enumerate((_SOURCE, _TARGET, _EITHER))
    for word in words.split()
}
"""Words that name texts in a header: 0 of the source, 1 of the target, 2 of either."""
_OTHERS = frozenset(_OTHER.split())
"""Words that name columns of neither side."""
NUMBER = re.compile(r"[\d.,:%+-]*")
"""Matches a cell of digits and signs, or nothing."""
_NO_TEXT = re.compile(
    r"""(?ax)
    [][\d\s.,:;/%+°#()'T-]+Z?                       # numbers, dates, times
    | \d{1,2}[:.]\d\d([:.]\d\d)?\s?[AaPp]\.?[Mm]\.?     # 3:45 PM
    | [A-Za-z]{3,9}\.?\s\d{1,2},?\s\d{4}.*             # Nov 5, 2026
    | \d{1,2}\.?\s[^\W\d]{3,9}\.?\s\d{4}.*             # 5. November 2026
    | \d{4}년\s.*
    | \w+://\S+ | www\.\S+ | \S+@\S+\.\w+ | \.{0,2}/\S*  # addresses, paths
    | \#?[\w$](?=[\w$]*[._:/\\-].)[\w$._:/\\-]*[\w$]   # menu.file.open, ERROR_404, home-title
    | [A-Za-z_]+\d+\w* | \#\w+ | \d+[A-Za-z]\w* | [0-9a-f]{8,}   # A12, #7f, 12b
    | [a-z]+\d*([A-Z][a-z0-9]*)+                       # menuFileOpen
    """
)
"""Matches a cell that is no text."""
_LONGEST_NAME = 40
"""Maximum number of characters of the name of a column."""
_FEW = 0.2
"""Share of the rows below which values are few, or cells rarely filled."""


Record = Sequence[str | None] | str
"""The cells of a record, None for a missing one, or what is wrong with it; no cells stand for a
record that is left out.
"""


@dataclass
class Table:
    """A table that is being read."""

    rows: Sequence[Sequence[str]]
    """Its first rows, all of the same width."""
    records: Iterator[tuple[Record, int]]
    """All records, each with its number of lines."""
    has_names: bool = False
    """True if the first of `rows` holds the names of the columns without being a record."""
    skipped: int = 0
    """Number of lines before the first record."""
    notes: Callable[[], list[str]] = field(default=list)
    """Returns, after the last record, sentences on how they were read."""


@dataclass(frozen=True)
class ColumnRequest:
    """The columns that are wanted, or the languages by which they are found."""

    columns: str = ""
    """Names or numbers of both columns, with a comma between them."""
    languages: Languages = field(default_factory=Languages)
    named: Languages = field(default_factory=Languages)
    """The languages in the name of the file, which decide less than a header."""


@dataclass(frozen=True)
class Columns:
    """The two columns of a table that hold the pairs."""

    source: int = 0
    target: int = 1
    names: tuple[str, ...] = ()
    """Their names, if the first row holds names."""
    languages: Languages = field(default_factory=Languages)
    """The languages that the names tell."""
    notes: tuple[str, ...] = ()
    """Sentences on the choice."""


@dataclass(frozen=True)
class _Name:
    """The meaning of a column's name."""

    language: str = ""
    side: int | None = None
    is_other: bool = False

    @property
    def is_text(self) -> bool:
        return bool(self.language or self.side is not None)


def find_column(rows: Sequence[Sequence[str]], name: str) -> int | None:
    """Return the index of a column by its name in the first row, by its language, or by its number,
    counted from 1; None if there is none.
    """
    names = [clean(cell).casefold() for cell in rows[0]]
    wanted = clean(name).casefold()
    if wanted in names:
        return names.index(wanted)
    code = language_called(clean(name))
    codes = [_meaning(cell).language for cell in rows[0]]
    if code and code in codes:
        return codes.index(code)
    is_number = wanted.isascii() and wanted.isdigit()
    return int(wanted) - 1 if is_number and 0 < int(wanted) <= len(names) else None


def holds_names(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row holds the names of the columns."""
    return _holds_names(rows, [*map(_meaning, rows[0])], _text_columns(rows))


def has_header(table: Table, column: str) -> bool:
    """Return whether the first record holds the names of the columns, one of which was asked for by
    its name or number.
    """
    if table.has_names or not column.isdigit():
        return not table.has_names
    is_single = len(table.rows[0]) == 1
    return _meaning(table.rows[0][0]).is_text if is_single else holds_names(table.rows)


def choose_columns(
    table: Table, request: ColumnRequest, name: str = "the table"
) -> Columns:
    """Choose the two columns that hold the pairs.

    Raises DataError, which begins with the `name` of the table, if there are too many columns, or
    not those that are requested.
    """
    rows = table.rows
    width = len(rows[0]) if rows else 2
    if width > MAX_COLUMNS:
        raise DataError(
            f"{name}: has {width:,} columns, and at most {MAX_COLUMNS:,} are read; save those of "
            "the pairs as a table of their own"
        )
    if width < 2:
        single = f"; in {len(rows):,} rows nothing parts two" if width else ""
        raise DataError(
            f"{name}: has no two columns, of sentences and of their translations{single}"
        )
    names = [*map(_meaning, rows[0])]
    texts = _text_columns(rows)
    has_names = table.has_names or _holds_names(rows, names, texts)
    if request.columns:
        pair = requested_columns(rows, request.columns, name)
        requested = [part.strip() for part in request.columns.split(",")]
        has_names = has_names or not all(part.isdigit() for part in requested)
    elif has_names:
        pair = _by_names(names, texts, request)
    else:
        pair = (texts[0], texts[1]) if len(texts) > 1 else (0, 1)
    source, target = pair
    if not has_names:
        return Columns(source, target, notes=(*_describe(table, pair, ()),))
    column_names = tuple(clean(rows[0][column]) for column in pair)
    languages = Languages(source=names[source].language, target=names[target].language)
    notes = (
        *_describe(table, pair, column_names),
        *_describe_languages(languages, request),
    )
    return Columns(source, target, column_names, languages, notes)


def _describe(
    table: Table, pair: tuple[int, int], names: tuple[str, ...]
) -> Iterator[str]:
    """Yield sentences on the choice of two columns; those of a table without names have none."""
    if names and not table.has_names:
        yield f"line {table.skipped + 1} names the columns ({', '.join(names)}) and was skipped"
    source, target = pair
    width = len(table.rows[0]) if table.rows else 2
    if table.has_names and all(names):
        what = " and ".join(names) if names != ("source", "target") else ""
    else:
        is_plain = all(names) and width == 2 and source < target
        what = "" if is_plain else f"columns {source + 1} and {target + 1} of {width}"
    if what:
        sides = ((row[source], row[target]) for row in table.rows[bool(names) :])
        filled = (pair for pair in sides if pair[0].strip() and pair[1].strip())
        example = " ↔ ".join(map(_excerpt, next(filled, ("", ""))))
        yield f"{what} were read, such as {example}"


def _describe_languages(languages: Languages, request: ColumnRequest) -> Iterator[str]:
    """Yield a warning if other languages were given, or named by the file."""
    for expected in (request.languages, request.named):
        pairs = zip(expected.pair, languages.pair, strict=True)
        bases = [(base_language(code), base_language(named)) for code, named in pairs]
        if any(code and named and code != named for code, named in bases):
            yield (
                f"warning: the columns are {languages}, and the name of the file, or "
                f"`languages=`, says {expected}; the names of the columns were followed"
            )
            return


def requested_columns(
    rows: Sequence[Sequence[str]], columns: str, name: str
) -> tuple[int, int]:
    """Return two columns of the table `name`, which `columns` names with a comma between them."""
    parts = [part.strip() for part in columns.split(",")]
    chosen = {part: find_column(rows, part) for part in parts}
    causes = [
        f"{name}: has no column {part!r}; there are {describe_columns(rows)}"
        for part, column in chosen.items()
        if column is None
    ]
    indices = [column for column in chosen.values() if column is not None]
    if not causes and len({*indices}) != 2:
        causes = [
            f"{name}: wanted two columns (`columns=`), such as English,hsb or 2,3; got {columns!r}"
        ]
    DataError.raise_all(causes)
    source, target = indices
    return source, target


def describe_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return the numbers of the columns with what the first row has in them."""
    return ", ".join(
        f"{number} ({_excerpt(cell)})" for number, cell in enumerate(rows[0][:20], 1)
    )


def _by_names(
    names: Sequence[_Name], texts: Sequence[int], request: ColumnRequest
) -> tuple[int, int]:
    """Choose by the languages that are wanted, by the names of the sides, by languages, or else the
    first texts without a name of another kind.
    """
    columns: dict[str, int] = {}
    for column, name in enumerate(names):
        if name.language:
            columns.setdefault(name.language, column)
            columns.setdefault(base_language(name.language), column)
    by_language = [
        column for column in sorted({*columns.values()}) if not names[column].is_other
    ]
    wanted = [request.languages]
    if len(by_language) > 2:
        wanted.append(request.named)
    for languages in wanted:
        source, target = (
            columns.get(code, columns.get(base_language(code)))
            for code in languages.pair
        )
        if source is not None and target is not None and source != target:
            return source, target

    sources, targets = (
        [column for column, name in enumerate(names) if name.side == side]
        for side in (0, 1)
    )
    if sources and targets:
        return sources[0], targets[0]
    chosen = sources + targets
    if len(chosen) > 1 or (len(by_language) > 1 and not {*chosen} <= {*by_language}):
        chosen = []
    order = [
        *by_language,
        *(column for column in texts if not names[column].is_other),
        *columns.values(),
        *range(len(names)),
    ]
    free = [column for column in dict.fromkeys(order) if column not in chosen]
    if not chosen:
        return min(free[:2]), max(free[:2])
    return (chosen[0], free[0]) if sources else (free[0], chosen[0])


def _holds_names(
    rows: Sequence[Sequence[str]], names: Sequence[_Name], texts: Sequence[int]
) -> bool:
    """Return whether the first row names two different texts, or one or none of them beside what is
    no text.
    """
    if len(rows) < 2:
        return False
    cells = [cell.strip() for cell in rows[0]]
    known = [column for column, name in enumerate(names) if name.is_text]
    others = [column for column in range(len(names)) if names[column].is_other]
    for first, second in combinations(known[:10], 2):
        same_language = names[first].language == names[second].language != ""
        if same_language or cells[first].lower() == cells[second].lower():
            continue
        # "it" and "es" are language codes, but also words that translate each other. They are words
        # if other pairs look like codes too.
        pairs = [(row[first].strip(), row[second].strip()) for row in rows]
        return not all(map(named_code, pairs[0])) or (
            sum(all(map(named_code, pair)) for pair in pairs) == 1
        )
    if len(names) < 3:
        return False
    beside = any(column not in known for column in others)
    return bool(known and beside) or any(column not in texts for column in others)


def _meaning(cell: str) -> _Name:
    """Return what a name says of its column."""
    name = clean(cell)
    if len(name) > _LONGEST_NAME:
        return _Name()
    parts = re.split(r"[\s_()\[\]:/.,?!*]+|(?<=[a-z])(?=[A-Z])", name)
    words = [part.casefold() for part in parts if part]
    code = "" if name.lower() in _SIDES else language_called(name)
    if any(word in _OTHERS or word in NO_LANGUAGES - {*_SIDES} for word in words):
        is_code = name.lower() in words
        return _Name(code, None, is_other=is_code or not code)
    if not code and (match := re.fullmatch(r"(.+?)\s*[(\[].*", name)):
        code = language_called(match[1])
    rest = [word for word in words if word not in _SIDES]
    if rest and not code:
        codes = {language_called(word) for word in rest}
        code = language_called(" ".join(rest)) or (
            codes.pop() if len(codes) == 1 else ""
        )
        if not code:
            return _Name()
    side = next((_SIDES[word] for word in words if word in _SIDES), None)
    return _Name(code, side)


def _text_columns(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns of texts, not judging by the first row; the first two if there are
    fewer.
    """
    columns = [[row[c].strip() for row in rows[1:]] for c in range(len(rows[0]))]
    for is_text in (_is_varied_text, _is_text, _is_no_number):
        texts = [column for column, cells in enumerate(columns) if is_text(cells)]
        if len(texts) > 1:
            return texts
    return [0, 1]


def _is_varied_text(cells: Sequence[str]) -> bool:
    """Return whether a column holds texts that are rarely missing and mostly different."""
    filled = [cell for cell in cells if cell]
    is_label = (
        len(filled) > 2
        and len({*filled}) <= max(1, _FEW * len(filled))
        and max(map(len, filled)) < _LONGEST_NAME
    )
    return len(filled) > _FEW * len(cells) and not is_label and _is_text(cells)


def _is_text(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell]
    if len(filled) > 1 and len({*filled}) == 1:
        return False
    others = sum(len(cell) < 200 and bool(_NO_TEXT.fullmatch(cell)) for cell in filled)
    return others < 0.9 * len(filled)


def _is_no_number(cells: Sequence[str]) -> bool:
    return not all(NUMBER.fullmatch(cell) for cell in cells)


def _excerpt(text: str) -> str:
    text = clean(text)
    return repr(text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1]}…")
