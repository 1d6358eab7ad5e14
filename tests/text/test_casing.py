"""Lines in capitals and titles are read in the letters in which the vocabulary knows their
words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from helpers.text_table import lines, rows

from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.text.casing import CaseReader, KnownCase

TEXT = lines("""
    Open the file in a new window
    Close the window of Regard
    Save a PDF file
    Print the PDF
""")
TEXT = [*TEXT * 20, "A AND B IN C"]
ENCODE = Tokenizer.train(TEXT, TEXT, TokenizerSettings(size=370)).source.encode
READER = CaseReader(("", ""), ENCODE)


@pytest.mark.parametrize(
    ("line", "known"),
    rows("""
        OPEN THE FILE                     | Open the file
        THE WINDOW OF REGARD!             | The window of Regard!
        SAVE A PDF FILE.                  | Save a PDF file.
        IN A FILE IN A WINDOW             | In a file in a window
        >>deu<< OPEN THE FILE             | >>deu<< Open the file
        “OPEN” — 12 FILES                 | “Open” — 12 files
        SAVE THE FILE! “CLOSE THE WINDOW” | Save the file! “Close the window”
    """)
    + [["OPEN \U000f1900 FILE", "Open \U000f1900 file"]],
)
def test_capitals_become_known_letters_and_come_back(line: str, known: str) -> None:
    case = READER.read(line)
    assert case[:2] == (known, True)
    assert case.restore("Öffne die Datei") == "ÖFFNE DIE DATEI"


def test_a_title_is_read_as_a_sentence_and_stays_one() -> None:
    case = READER.read("Close The Window Of Regard In A File")
    assert case == KnownCase("Close the window of Regard in a file")
    assert case.restore("Öffne") == "Öffne"
    short = "Save The File"
    assert READER.read(short).line == short, "short ones may be names and labels"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "PDF",
        "A",
        "12 %",
        "Open the file",
        "Save PDF",
        "나는 PDF 파일을",
        "IT 산업",
        "!",
        ">>deu<<",
    ],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert READER.read(line) == KnownCase(line)


@pytest.mark.parametrize(
    "line", ["ⅯⅯ", "ŉ ŉ ŉ ŉ", "ǅ ǅ ǅ ǅ", "ẞ ẞẞ", "İİ", "👍 AA", "A" * 5000]
)
def test_letters_of_any_kind_are_read(line: str) -> None:
    assert READER.read(line).restore("a") in ("a", "A")


CORPORA = {
    "tr": "Işıkları kapat|Kapıyı kilitle|İptal et|Sırayı sil|Ilık su ilik|Linux ve Windows kapat|su ılık|iptal",
    "el": "Ακύρωση τώρα|Άνοιγμα αρχείου|Διαγραφή σελίδας|το όνομά μου|Προϊόν ή μάιος|ακύρωση και διαγραφή|PDF και η σελίδα",
    "de": "Eine große Straße|Die Masse|Das Gefäß|Das Wasser|der Maßstab und die Masse",
    "nl": "IJs en ijzer kopen|De ijsbeer slaapt 's avonds|Het ijs smelt",
    "az": "İşıqları söndür|Qapını aç|Ilıq su",
    "hy": "Հայր և որդի|Գիր և դպրություն",
}


@pytest.fixture(scope="module")
def reader() -> Callable[[str, str], CaseReader]:
    """Return a function that makes a reader for a source language, whose vocabulary is learnt from
    a few lines.
    """
    readers = dict[tuple[str, str], CaseReader]()

    def make(source: str, target: str) -> CaseReader:
        if (source, target) not in readers:
            text = CORPORA[source.partition("-")[0]].split("|") * 20
            tokenizer = Tokenizer.train(text, text, TokenizerSettings())
            readers[source, target] = CaseReader(
                (source, target), tokenizer.source.encode
            )
        return readers[source, target]

    return make


@pytest.mark.parametrize(
    ("source", "line", "known"),
    rows("""
        tr    | IŞIKLARI KAPAT         | Işıkları kapat
        tr    | KAPIYI KİLİTLE!        | Kapıyı kilitle!
        tr    | ILIK                   | Ilık
        tr    | LINUX KAPAT            | Linux kapat
        tr    | SIRAYI SİL. İPTAL ET   | Sırayı sil. İptal et
        tr-TR | Işıkları Kapat Kapıyı Kilitle | Işıkları kapat Kapıyı kilitle
        el    | ΑΚΥΡΩΣΗ ΤΩΡΑ           | Ακύρωση τώρα
        el    | ΑΝΟΙΓΜΑ ΑΡΧΕΙΟΥ        | Άνοιγμα αρχείου
        el    | ΆΝΟΙΓΜΑ ΑΡΧΕΊΟΥ        | Άνοιγμα αρχείου
        el    | ΔΙΑΓΡΑΦΗ ΣΕΛΙΔΑΣ;      | Διαγραφή σελίδας;
        el    | ΤΟ ΟΝΟΜΑ ΜΟΥ           | Το όνομά μου
        el    | ΠΡΟΪΟΝ Ή ΜΑΪΟΣ         | Προϊόν ή μάιος
        el    | ΠΡΟΙΟΝ Ή ΜΑΙΟΣ         | Προϊόν ή μάιος
        el    | ΣΕΛΙΔΑ PDF             | Σελίδα PDF
        de    | EINE GROSSE STRASSE    | Eine große Straße
        de    | DAS GEFÄẞ              | Das Gefäß
        de    | EINE GROßE STRAßE      | Eine große Straße
        de    | DAS WASSER             | Das Wasser
        nl    | IJS EN IJZER           | IJs en ijzer
        nl    | DE IJSBEER. IJS SMELT  | De ijsbeer. IJs smelt
        nl    | De IJsbeer Slaapt Het IJs | De ijsbeer slaapt Het ijs
        nl    | ’S AVONDS SLAAPT       | ’s Avonds slaapt
        nl    | ĲS EN ĲZER             | IJs en ijzer
        az    | İŞIQLARI SÖNDÜR        | İşıqları söndür
        hy    | ՀԱՅՐ ԵՎ ՈՐԴԻ           | Հայր և որդի
    """),
)
def test_capitals_are_read_by_the_language_of_the_source(
    reader: Callable[[str, str], CaseReader], source: str, line: str, known: str
) -> None:
    case = reader(source, "")
    # Again it is remembered.
    for text in (line, line, unicodedata.normalize("NFD", line)):
        assert case.read(text).line == known
    assert case.read(line).is_capital == (line.replace("ß", "").isupper())


@pytest.mark.parametrize(
    ("code", "capitals"),
    rows("""
                     | İPTAL ΤΏΡΑ IJS
        >>tr<<       | İPTAL ΤΏΡΑ IJS
        >>tur<<      | İPTAL ΤΏΡΑ IJS
        >>kaz_Latn<< | İPTAL ΤΏΡΑ IJS
        >>kk-Latn<<  | İPTAL ΤΏΡΑ IJS
        >>kk-Cyrl<<  | IPTAL ΤΏΡΑ IJS
        >>ell<<      | IPTAL ΤΩΡΑ IJS
        >>zh-Hans<<  | IPTAL ΤΏΡΑ IJS
    """),
)
def test_the_code_of_a_line_is_the_language_of_its_translation(
    code: str, capitals: str
) -> None:
    for prefix in (code, f" {code} "):
        case = CaseReader(("en", "tr"), ENCODE).read(f"{prefix}OPEN THE FILE")
        assert case.line == f"{prefix}Open the file"
        assert case.restore("iptal τώρα ıjs") == capitals


def test_parts_of_a_line_are_restored_by_its_own_language(
    reader: Callable[[str, str], CaseReader],
) -> None:
    case = reader("tr", "el").read("KAPIYI KİLİTLE")
    assert case.restore_source("Kapıyı kilitle") == "KAPIYI KİLİTLE"
    assert case.restore("Άνοιγμα ή τιμή") == "ΑΝΟΙΓΜΑ Ή ΤΙΜΗ"
    tokens = ["▁τιμ", "ή", "▁ή", "▁μά", "ι", "ος"]
    assert case.restore_tokens(tokens) == ["▁ΤΙΜ", "Η", "▁Ή", "▁ΜΑ", "Ϊ", "ΟΣ"]
    assert case.restore_tokens(["▁ΐ", "ß"]) == ["▁Ϊ", "SS"]
