"""Upper and lower case by language, compared with ICU's in node, and with tables of words."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import unicodedata

import pytest
from helpers.text_table import items, lines, rows

from regard.data.letter_case import letter_case

LETTERS = {
    "tr": "abcçdefgğhıijklmnoöprsştuüvyzâîûqwx",
    "az": "abcçdeəfgğhxıijkqlmnoöprsştuüvyz",
    "el": "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋΐΰ",
    "lt": "aąbcčdeęėfghiįyjklmnoprsštuųūvzžíìĩáàãúùũýỹéèẽ",
    "nl": "abcdefghijklmnopqrstuvwxyzéëïöüáíóúĳ",
    "de": "abcdefghijklmnopqrstuvwxyzäöüß",
}
PARTS = {
    "el": lines("""
        αι
        ει
        οι
        υι
        ου
        αυ
        ευ
        ηυ
        άι
        έι
        όι
        άυ
        έυ
        αΐ
        αϊ
        ή
        ή ή
        ὧ
    """),
    "nl": ["ij", "IJ", "íj́", "oei", "'s ij"],
    "lt": items("i̇́ i̇̀ i̇̃ į̇́ į̇̃ j̇̃ ie J̃ Į́ Ì Í Ĩ"),
    "tr": ["İ", "I", "ıI", "iİ"],
    "az": ["İ", "I", "ıI", "Ə"],
    "de": ["ss", "ẞ"],
}
WORDS = {
    "el": items("""
        μάιος Μάιος άυλος προϊόν νεράιδα ρόιδι ή Ή ήλιος ΐ Αθήνα ακύρωση τώρα όνομά μου ΟΔΟΣ ΟΔΟΣ.
        ΣΑΣ; σας
    """),
    "lt": ["Ą̃žuolas", "šį̃", "jį́", "Jūs", "RỸTAS", "i̇̀r"],
    "tr": items("IŞIKLARI KAPAT İPTAL ET ılık Kapıyı kilitle DİYARBAKIR"),
    "az": ["İMTAHAN", "IŞIQ", "işıq", "Şəhər", "ƏLİ"],
}
NODE = """
let text = ""
process.stdin.on("data", part => text += part)
process.stdin.on("end", () => {
  const {language, words} = JSON.parse(text)
  console.log(JSON.stringify(words.map(word => [word.toLocaleUpperCase(language), word.toLocaleLowerCase(language)])))
})
"""


def generated(language: str) -> list[str]:
    """Return every letter, every part and words of both, some of them with capitals."""
    draw = random.Random(language)
    parts = [*LETTERS[language], *PARTS[language]]
    words = ["".join(draw.choices(parts, k=draw.randint(1, 7))) for _ in range(1500)]
    # ICU writes a second dot beside the one that Python's upper() leaves under an accent.
    upper = [word.upper() for word in words[:300] if "\u0307" not in word]
    return [
        unicodedata.normalize("NFC", word)
        for word in [*parts, *words, *upper, *WORDS.get(language, ())]
    ]


@pytest.mark.skipif(
    shutil.which("node") is None,
    reason="node, whose ICU is the oracle, is not installed",
)
@pytest.mark.parametrize("language", LETTERS)
def test_letters_change_as_icu_changes_them(language: str) -> None:
    words = generated(language)
    question = json.dumps({"language": language, "words": words})
    answer = subprocess.run(
        ["node", "-e", NODE],
        input=question,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    expected = [
        [unicodedata.normalize("NFC", text) for text in pair]
        for pair in json.loads(answer.stdout)
    ]
    case = letter_case(language)
    results = [[case.upper(word), case.lower(word)] for word in words]
    normal = [[unicodedata.normalize("NFC", text) for text in pair] for pair in results]
    differing = [
        row for row in zip(words, normal, expected, strict=True) if row[1] != row[2]
    ]
    assert differing == []


@pytest.mark.parametrize(
    ("code", "small", "capitals"),
    rows("""
        crh      | qırım işi      | QIRIM İŞİ
        crh      | ılıq çıbıq     | ILIQ ÇIBIQ
        kk-Latn  | qazaq tili jıl | QAZAQ TİLİ JIL
        kk-Latn  | ağılşın iri    | AĞILŞIN İRİ
        kaz_Latn | kitap jıyın    | KİTAP JIYIN
        tt-Latn  | iske qırıq     | İSKE QIRIQ
        kk       | info           | INFO
        kk-Cyrl  | іс info        | ІС INFO
        tr-TR    | ılık iş        | ILIK İŞ
        aze_Latn | işıq           | İŞIQ
        hy       | և կամ          | ԵՎ ԿԱՄ
        de       | straße         | STRASSE
                 | iıß            | IISS
        en       | info ijs       | INFO IJS
    """),
)
def test_other_languages_change_by_a_table(
    code: str, small: str, capitals: str
) -> None:
    case = letter_case(code)
    assert case.upper(small) == capitals
    if code not in ("hy", "de", ""):
        assert case.lower(capitals) == small


@pytest.mark.parametrize(
    ("code", "text", "initial"),
    rows("""
        nl | ijs kopen   | IJs kopen
        nl | ijsland     | IJsland
        nl | íj́s         | ÍJ́s
        nl | ĳs          | Ĳs
        nl | iets        | Iets
        nl | 's avonds   | 's Avonds
        nl | ’S ijsbeers | ’s IJsbeers
        nl | 't-ijs      | 't-IJs
        en | 's avonds   | 'S avonds
        en | ijs         | Ijs
        tr | iptal       | İptal
        tr | ışık        | Işık
        el | άνοιγμα     | Άνοιγμα
        lt | į̇́           | Į́
        lt | i̇̀r          | Ìr
        hy | և           | Եվ
        hr | ǆep         | ǅep
        en | 12 files    | 12 files
        en |             |
    """),
)
def test_a_word_begins_with_the_capital_of_its_language(
    code: str, text: str, initial: str
) -> None:
    assert unicodedata.normalize(
        "NFC", letter_case(code).initial(text)
    ) == unicodedata.normalize("NFC", initial)


@pytest.mark.parametrize(
    "word",
    items("""
        ακύρωση τώρα άνοιγμα αρχείου προϊόν προϊόντα μάιος ρόιδι παϊδάκι νεράιδα άυλος όνομά όνομα
        που πού και ή η διακόπτης ταΐζω Αΰπνος εϋτυχία υιός ευαγγέλιο βοήθεια μαΐου θεϊκός
    """),
)
def test_capitals_may_be_each_word_that_they_write(word: str) -> None:
    case = letter_case("el")
    capitals = case.upper(word)
    assert word.lower() in case.spellings(capitals)
    assert word.lower() in case.spellings(
        capitals.replace("Ϊ", "Ι").replace("Ϋ", "Υ")
    ), "many leave the dialytika out"
    assert len(case.spellings(capitals)) <= 40


def test_accents_that_are_written_stay() -> None:
    assert letter_case("el").spellings("ΑΚΎΡΩΣΗ") == ["ακύρωση"]
    assert letter_case("de").spellings("MASSE") == ["masse", "maße"]
    assert len(letter_case("el").spellings("ΑΙ" * 5000)) == 1
    assert len(letter_case("de").spellings("SS" * 5000)) == 4
