"""Lines in capitals and titles are read in the letters in which the vocabulary knows their words."""

from __future__ import annotations

import pytest

from regard.data.casing import CaseReader, KnownCase
from regard.data.tokenizer import Tokenizer, TokenizerSettings

TEXT = ["Open the file in a new window", "Close the window of Regard", "Save a PDF file", "Print the PDF"] * 20 + [
    "A AND B IN C"
]
ENCODE = Tokenizer.train(TEXT, TEXT, TokenizerSettings(size=370)).source.encode
READER = CaseReader(("", ""), ENCODE)


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("OPEN THE FILE", "Open the file"),
        ("THE WINDOW OF REGARD!", "The window of Regard!"),
        ("SAVE A PDF FILE.", "Save a PDF file."),
        ("IN A FILE IN A WINDOW", "In a file in a window"),
        (">>deu<< OPEN THE FILE", ">>deu<< Open the file"),
        ("“OPEN” — 12 FILES", "“Open” — 12 files"),
        ("OPEN \U000f1900 FILE", "Open \U000f1900 file"),
        ("SAVE THE FILE! “CLOSE THE WINDOW”", "Save the file! “Close the window”"),
    ],
)
def test_capitals_become_known_letters_and_come_back(line: str, known: str) -> None:
    case = READER.read(line)
    assert case[:2] == (known, True)
    assert case.restore("Öffne die Datei") == "ÖFFNE DIE DATEI"


def test_a_title_is_read_as_a_sentence_and_stays_one() -> None:
    case = READER.read("Close The Window Of Regard In A File")
    assert case == KnownCase("Close the window of Regard in a file")
    assert case.restore("Öffne") == "Öffne"
    assert READER.read("Save The File").line == "Save The File", "short ones may be names and labels"


@pytest.mark.parametrize(
    "line", ["", "PDF", "A", "12 %", "Open the file", "Save PDF", "나는 PDF 파일을", "IT 산업", "!", ">>deu<<"]
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert READER.read(line) == KnownCase(line)


@pytest.mark.parametrize("line", ["ⅯⅯ", "ŉ ŉ ŉ ŉ", "ǅ ǅ ǅ ǅ", "ẞ ẞẞ", "İİ", "👍 AA", "A" * 5000])
def test_letters_of_any_kind_are_read(line: str) -> None:
    assert READER.read(line).restore("a") in ("a", "A")
