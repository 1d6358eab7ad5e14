"""Test translations as a table: whatever a spreadsheet makes of it comes back."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from regard.common.errors import DataError
from regard.data.corrections import (
    TRANSLATIONS,
    CorrectedPair,
    read_corrected,
    write_translations,
)

ROWS = [
    ('a "quoted", text', "ein Text", "ein Txt"),
    ("two; parts\tand a tab", "zwei Teile", "zwei"),
    ("집에 간다", "I go home", "I go"),
]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_table_that_a_spreadsheet_saved_is_read(
    tmp_path: Path, delimiter: str, encoding: str
) -> None:
    path = write_translations(tmp_path, ROWS)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf"), "Excel needs the mark"
    with path.open(encoding="utf-8-sig", newline="") as file:
        table = list(csv.reader(file))
    assert table[0] == ["source", "reference", "translation", "correction"]
    assert [tuple(row[:3]) for row in table[1:]] == ROWS
    assert {row[3] for row in table[1:]} == {""}

    table[2][3] = "zwei Teile; und"
    table.append([""])
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(table)
    assert read_corrected(path) == [
        CorrectedPair(*row[:2], correction)
        for row, correction in zip(ROWS, ["", "zwei Teile; und", ""], strict=True)
    ]


def test_an_earlier_table_with_corrections_is_kept(tmp_path: Path) -> None:
    path = write_translations(tmp_path, ROWS[:1])
    write_translations(tmp_path, ROWS)
    assert list(tmp_path.iterdir()) == [path], "nobody has written into it"

    corrected = path.read_bytes().replace(b"zwei,", b"zwei,beide")
    for content in (corrected, b"another table"):
        path.write_bytes(content)
        write_translations(tmp_path, ROWS)
    assert (tmp_path / "test-translations-1.csv").read_bytes() == corrected
    assert (tmp_path / "test-translations-2.csv").read_bytes() == b"another table"
    assert len(read_corrected(tmp_path / TRANSLATIONS)) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"source,target\na,b\n", "wanted the columns source, reference,"),
        (b"", "wanted the columns"),
        (
            "source,reference,translation,correction\nä,b,c,d".encode("cp1252"),
            "CSV UTF-8",
        ),
        (
            b"source,reference,translation,correction\n" + b"a" * 200_000,
            "cannot be read",
        ),
    ],
)
def test_another_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_corrected(path)
