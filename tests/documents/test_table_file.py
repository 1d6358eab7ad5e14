"""Tables as documents: one column is translated, and all other cells stay to the byte."""

from __future__ import annotations

import csv
import io
import random
from typing import Literal

import pytest
from helpers.hostile_models import MODELS, Model, translate_document

from regard.common.errors import DataError
from regard.documents import Document, DocumentOptions
from regard.documents.formats import read_document
from regard.text.translation import Translation

CSV = """\
id,English,note
1,A man rides.,"a, b"
2,"He said ""no"", and left.",x
3,"Two
lines.",
4,,empty
5,12.50,number
"""
TSV = "id\tEnglish\tnote\n1\tA man rides.\tx\n2\tHe said \"no\" here.\t'y'\n"


def read(text: str, name: str, column: str = "English") -> Document:
    options = DocumentOptions(column=column)
    return read_document(text.encode(), name, "table", options)


def unchanged(words: list[str], draw: random.Random) -> list[str]:
    return words


def rows(text: str, dialect: Literal["excel", "excel-tab"]) -> list[list[str]]:
    quoting = csv.QUOTE_MINIMAL if dialect == "excel" else csv.QUOTE_NONE
    return [*csv.reader(io.StringIO(text, newline=""), dialect, quoting=quoting)]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("text", "name", "dialect"),
    [(CSV, "a.csv", "excel"), (TSV, "a.tsv", "excel-tab")],
)
def test_other_cells_stay(
    model: Model, text: str, name: str, dialect: Literal["excel", "excel-tab"]
) -> None:
    for seed in range(5):
        written = translate_document(read(text, name), model, seed).decode()
        before, after = rows(text, dialect), rows(written, dialect)
        assert [[row[0], *row[2:]] for row in after] == [
            [row[0], *row[2:]] for row in before
        ]
        assert [bool(row[1]) for row in after] == [bool(row[1]) for row in before] or (
            model.__name__ == "drop"
        )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (CSV, "a.csv"),
        (CSV.replace("\n", "\r\n"), "a.csv"),
        (CSV.replace(",", ";"), "a.csv"),
        ("sep=;\n" + CSV.replace(",", ";"), "a.csv"),
        (CSV.rstrip("\n"), "a.csv"),
        ("\ufeff" + TSV, "a.tsv"),
    ],
)
def test_the_same_words_give_the_same_bytes(text: str, name: str) -> None:
    document = read(text, name)
    assert len(document.texts) >= 2
    assert translate_document(document, unchanged) == text.encode()


@pytest.mark.parametrize("column", ["text", "1"])
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("text\nA dog\n", "a.csv"),
        ('text\nA dog, a cat\n"One, two"\nA cat; a dog\n', "a.csv"),
        ("text\nA dog; a cat\nA cat | a dog\n", "a.tsv"),
    ],
)
def test_a_table_may_have_one_column(text: str, name: str, column: str) -> None:
    document = read(text, name, column)
    lines = text.splitlines()[1:]
    assert [cell.text for cell in document.texts] == [line.strip('"') for line in lines]
    assert translate_document(document, unchanged) == text.encode()
    new = [Translation(f"{line}, or; not", (), 0.0) for line in document.lines]
    dialect: Literal["excel", "excel-tab"] = "excel" if name == "a.csv" else "excel-tab"
    expected = [["text"], *([line.text] for line in new)]
    assert rows(document.render(new).decode(), dialect) == expected


def test_rows_are_named_as_spreadsheets_number_them() -> None:
    texts = read(CSV, "a.csv").texts
    assert [(text.name, text.text) for text in texts] == [
        ("row 2", "A man rides."),
        ("row 3", 'He said "no", and left.'),
        ("row 4", "Two\nlines."),
    ]
    assert [text.text for text in read(CSV, "a.csv", "3").texts] == [
        "a, b",
        "x",
        "empty",
        "number",
    ]


def test_a_table_needs_one_of_its_columns() -> None:
    with pytest.raises(
        DataError, match=r"a\.csv: has no column 'Deutsch'; there are 1 \('id'\)"
    ):
        read(CSV, "a.csv", "Deutsch")
    with pytest.raises(DataError, match=r"by its number or name, such as `column=1`"):
        read(CSV, "a.csv", "")
    with pytest.raises(DataError, match=r"a\.csv: row 4 has 1 cells instead of 3"):
        read("id,English,n\n1,a b,x\n2,c d,y\n3\n4,e f,z\n5,g h,z\n", "a.csv")


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        ("text\nA dog\nTwo dogs\n", ("A dog", "Two dogs")),
        ("A dog\nTwo dogs\n", ("A dog", "Two dogs")),
    ],
)
def test_an_only_column_needs_no_name(table: str, lines: tuple[str, ...]) -> None:
    assert read(table, "a.csv", "").lines == lines
