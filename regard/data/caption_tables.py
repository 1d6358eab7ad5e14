"""Tables of captions: the columns of image files and of captions, by their names or by what is in
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.common.counting import counted
from regard.common.errors import DataError
from regard.data.caption_formats import CAPTION_NAMES, FILE_NAMES, SUFFIXES, CaptionFile
from regard.data.table_columns import MAX_COLUMNS, Table, requested_columns
from regard.data.text import clean

IsImage = Callable[[str], bool]
"""Returns whether a cell names an image."""
_SHOWN = 20
"""Maximum number of columns that a sentence names."""


@dataclass(frozen=True)
class CaptionColumns:
    """The columns of a table that hold the files and their captions."""

    file: int
    caption: int
    has_names: bool
    """True if the first row holds the names of the columns."""

    def describe(self, rows: Sequence[Sequence[str]]) -> str:
        """Return a sentence on the columns that were read."""
        pair = self.file, self.caption
        names = [clean(rows[0][column]) if self.has_names else "" for column in pair]
        file, caption = (
            name or str(column + 1) for name, column in zip(names, pair, strict=True)
        )
        return f"columns {file} and {caption} of {len(rows[0])} were read"


def read_caption_table(
    table: Table, columns: CaptionColumns, first: int = 1
) -> CaptionFile:
    """Read the rows of a table, whose first line has the number `first`."""
    number = first + table.skipped
    skips = columns.has_names and not table.has_names
    rows = []
    problems = []
    for record, count in table.records:
        if isinstance(record, str):
            problem = record.removeprefix("do not ").partition(";")[0]
            problems.append(f"line {number} does not {problem}; correct it")
        elif record and not skips:
            file, caption = (
                (record[column] or "").strip()
                for column in (columns.file, columns.caption)
            )
            if file or caption:
                rows.append((number, file, caption))
        skips = False
        number += count
    notes = (columns.describe(table.rows), *table.notes())
    return CaptionFile("table", "line", rows, problems, notes)


def choose_caption_columns(
    rows: Sequence[Sequence[str]], requested: str, is_image: IsImage, name: str
) -> CaptionColumns:
    """Choose the columns that are requested, or by their names, or else the column that names
    images and the longest texts beside it.

    Raises DataError, which begins with the `name` of the table, if there are no such columns.
    """
    width = len(rows[0]) if rows else 0
    if not 1 < width <= MAX_COLUMNS:
        raise DataError(
            f"{name}: has {counted(width, 'column')}, and wanted are two to {MAX_COLUMNS:,}, one "
            "of image files and one of captions; save these as a table of their own"
        )
    may_have_names = not any(map(has_image_ending, rows[0]))
    names = [*map(_key, rows[0])] if may_have_names else []
    if requested:
        file, caption = requested_columns(rows, requested, name)
        by_number = all(part.strip().isdigit() for part in requested.split(","))
        has_names = may_have_names and not (by_number and is_image(rows[0][file]))
        return CaptionColumns(file, caption, has_names)
    files = _column_of_files(rows, names, is_image)
    captions = _column_of_captions(rows, names, files)
    if files is None or captions is None:
        what = "image files" if files is None else "captions"
        cells = [clean(cell) for cell in rows[0][:_SHOWN]]
        example = ",".join(cells[:2]) if may_have_names and all(cells[:2]) else "1,2"
        raise DataError(
            f"{name}: has the columns {', '.join(cells)}, and none names {what}; give those of the "
            f"files and of the captions, such as `columns={example}`"
        )
    is_named = not {*names}.isdisjoint([*FILE_NAMES, *CAPTION_NAMES])
    has_names = may_have_names and (is_named or not is_image(rows[0][files]))
    return CaptionColumns(files, captions, has_names)


def _column_of_files(
    rows: Sequence[Sequence[str]], names: Sequence[str], is_image: IsImage
) -> int | None:
    """Return the column whose name is that of files, unless another names images and it does
    not.
    """
    columns = [*zip(*rows, strict=True)]
    counts = [
        (sum(map(is_image, cells)), sum(map(has_image_ending, cells)))
        for cells in columns
    ]
    best = max(range(len(counts)), key=counts.__getitem__)
    named = _first_named(names, FILE_NAMES)
    if 2 * counts[best][0] < max(1, len(rows) - bool(names)):
        return named
    return best if named is None or not counts[named][0] else named


def _column_of_captions(
    rows: Sequence[Sequence[str]], names: Sequence[str], files: int | None
) -> int | None:
    """Return the column whose name is that of captions, or else the column of the longest texts."""
    named = _first_named(names, CAPTION_NAMES)
    if named is not None and named != files:
        return named
    sizes = [
        sum(len(re.sub(r"[\W\d_]", "", row[column])) for row in rows[bool(names) :])
        if column != files
        else 0
        for column in range(len(rows[0]))
    ]
    best = max(range(len(sizes)), key=sizes.__getitem__)
    return best if sizes[best] else None


def _first_named(names: Sequence[str], wanted: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


def _key(name: str) -> str:
    """Return the name of a column as it stands in the lists of names."""
    return re.sub(r"[\s_-]+", "_", clean(name).casefold())


def has_image_ending(name: str) -> bool:
    """Return whether a name ends as those of image files do."""
    return name.strip().lower().endswith(SUFFIXES)
