"""Ends of sentences in all scripts, before small letters, and between clauses."""

from __future__ import annotations

import importlib.util
import random
import sys
import unicodedata
from pathlib import Path
from types import ModuleType

import pytest
import regex
from helpers.text_table import lines, rows
from helpers.time_limits import time_limit

from regard.data.sentence_ends import clause_ends, sentence_ends, usual_clauses
from regard.data.sentence_marks import GLUED, MARKS, SPACED
from regard.data.sentences import split_text
from regard.text.line_splitter import LineSplitter
from tests.data.script_lines import TWO_CLAUSES, TWO_SENTENCES
from tests.data.sentence_pieces import PIECES_OF_SCRIPTS

ROOT = Path(__file__).parents[2]
LONG = 100_000
"""Characters that quadratic time turns into minutes."""


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "make_sentence_tables", ROOT / "tools" / "make_sentence_tables.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_library_are_those_of_the_package(tool: ModuleType) -> None:
    assert tool.HEADER.read_text(encoding="utf-8") == tool.header(), (
        "run tools/make_sentence_tables.py"
    )


def test_all_marks_of_unicode_are_there_but_for_commas() -> None:
    """The installed package may be of an older Unicode than the tables."""
    characters = "".join(map(chr, range(sys.maxunicode + 1)))
    terminal = {*regex.findall(r"\p{STerm}", characters)}
    assert {unicodedata.name(mark) for mark in terminal - {*MARKS}} == {
        "MYANMAR SIGN LITTLE SECTION",
        "BALINESE CARIK SIKI",
        "JAVANESE PADA LINGSA",
    }
    assert not {*SPACED} & {*GLUED}
    common = {mark for mark in terminal if regex.match(r"\p{Script=Common}", mark)}
    wide = {mark for mark in common if unicodedata.east_asian_width(mark) in "WFH"}
    others = common - (wide - {*"．﹒"}) - {*SPACED}
    assert others <= {*"।॥؟᜵᜶᠃"}, "others of several scripts need white space"


@pytest.mark.parametrize("kind", TWO_SENTENCES)
def test_two_sentences_of_a_script_are_parted(kind: str) -> None:
    first, gap, second = TWO_SENTENCES[kind]
    assert split_text(first + gap + second).lines == (first, second)
    assert split_text(f"{first}  {second} {first}").lines == (first, second, first)


def test_marks_of_one_script_need_no_white_space_and_others_do() -> None:
    for mark in GLUED:
        for gap in ("", " "):
            assert split_text(f"ab{mark}{gap}cd").lines == (f"ab{mark}", "cd")
    for mark in SPACED:
        assert split_text(f"Ab{mark}Cd").lines == (f"Ab{mark}Cd",)
        assert split_text(f"Ab{mark} Cd").lines == (f"Ab{mark}", "Cd")


@pytest.mark.parametrize(
    "line",
    lines("""
        The variables α; β and γ are free.
        A man; Αυτός κοιμάται.
        Time: Նա քնած է։
        Ժամը 12։30 է։
        ཁོ་ནི། ང་དང་། མོ་འགྲོ།
        ཁོ་ཡོང་ནས། ང་འགྲོ།
        ཁོའི། ཕ་ཡུལ།
        ایم۔اے پاس ہے۔
        پی۔ٹی۔آئی
        فیصد ۳۔۵ ہے۔
        ខ្ញុំញ៉ាំបាយ ត្រី ។ល។
        डॉ. राम घर गया।
        क. ख. शर्मा
        পৃষ্ঠা ৫ | ৬
        ดร. สมชาย กลับบ้าน
        ณ วันที่ ๕ ม.ค. พ.ศ. ๒๕๖๗
        د. أحمد في البيت.
        א. כהן הולך.
        「行く。」と言った。
        ငါ၊ သူ၊ သူမ။
        እኔ፡ቤት፡እሄዳለሁ።
    """),
)
def test_a_mark_that_ends_no_sentence(line: str) -> None:
    assert split_text(line).lines == (line,)


@pytest.mark.parametrize(
    ("first", "second"),
    rows("""
        A man is in the park.     | iPhone users are sitting.
        Install it first.         | npm run build starts it.
        Type npm install.         | then wait.
        He bought it.             | eBay sent it.
        It works here.            | macOS and iOS do too.
        i went inside.            | she slept.
        He left in 1999.          | iPhones came later.
        She said “yes.”           | iPhone users nodded.
        Das ist mein Kätzchen.    | er schläft.
        On a fait une estimation. | et cela suffit.
        Я пошёл домой.            | он спит.
        Πάω σπίτι.                | αυτός κοιμάται.
        a man is sitting .        | the dog runs .
        파일을 찾지 못했습니다.   | winget을 실행하세요.
        Look at that!             | it is red.
    """),
)
def test_a_sentence_may_begin_with_a_small_letter(first: str, second: str) -> None:
    assert split_text(f"{first} {second}").lines == (first, second)


@pytest.mark.parametrize(
    "line",
    lines("""
        They have pets, e.g. the dog.
        Temperatures of max. 30 or min. 20 degrees on Dec. 5.
        « Oui. » dit-il.
        Prof. Dr. med. Meier kam.
        He has, i.e. owns, a dog, eg. a big one.
        It costs approx. five dollars.
        Cats, dogs, etc. and so on.
        The Dept. of Labor and the Univ. of Bonn.
        It is no. five in vol. two of the list.
        Acme Inc. has a dog vs. a cat.
        At 5 p.m. the dog sleeps.
        Das gilt z. B. ein Hund oder z.B. eine Katze.
        Er ist u. a. der Vater, d. h. ein Mann.
        Er wohnt in Nr. 5 der Straße, bzw. im Haus gegenüber.
        Am 3. Mai und am 4. und 5. jedes Monats.
        Das ist die 2. auflage, ca. fünf Seiten, geb. am Montag.
        Le prix est env. dix euros.
        Cuesta aprox. cinco, pág. siete.
        Het kost bijv. een euro.
        To jest np. pies, tzn. zwierzę.
        Je to např. pes, tzv. zvíře.
        A XIX. század és 2024. évi dolgok.
        Это т. е. так, 5 руб. за штуку, им. ленина.
        Είναι π.χ. το σπίτι, δηλ. εδώ.
        Wait… and then, or wait... and then.
        Es ging weiter… und weiter.
        "Go." he said.
        He left (at last.) then.
        It is slow. (optional)
        J. r. r. tolkien wrote it.
        Sec. 3.2. the rule holds.
        The str. and the nr. of it.
        Mevr. de Vries woont hier, El tfno. de la oficina es nuevo.
        La Cie. des Indes, das Geschäft der Fa. wurde verkauft.
        Он род. в Москве и ум. в Киеве, Ur. w Łodzi.
        The ver. of the app on the apt. in the Ave. of trees, two in. wide.
        The prev. and next, viz kap. druhá.
        i went home. she slept.
    """),
)
def test_a_small_letter_behind_an_abbreviation_or_an_ellipsis_begins_no_sentence(
    line: str,
) -> None:
    assert split_text(line).lines == (line,)


@pytest.mark.parametrize("kind", TWO_CLAUSES)
def test_spaces_part_sentences_if_no_line_in_training_has_them(kind: str) -> None:
    first, gap, second = TWO_CLAUSES[kind]
    line = first + gap + second
    assert LineSplitter(len, 1000, True, 1).split(line, []) == [first + gap, second]
    assert split_text(line).lines == (line,)
    for each_sentence, clauses in [(True, None), (True, 2), (False, 1)]:
        assert LineSplitter(len, 1000, each_sentence, clauses).split(line, []) == [line]


@pytest.mark.parametrize("kind", TWO_CLAUSES)
@pytest.mark.parametrize("each_sentence", [True, False])
def test_a_line_longer_than_any_in_training_is_split_between_clauses(
    kind: str, each_sentence: bool
) -> None:
    first, gap, second = TWO_CLAUSES[kind]
    part = f"{first} {second} "
    notes = list[str]()

    def length(text: str) -> int:
        return len(text.rstrip())

    splitter = LineSplitter(length, len(first + gap + second), each_sentence, 9)
    parts = splitter.split(gap.join([first, second] * 3), notes)
    assert "it was split between clauses into 3 parts" in notes[0]
    assert parts == [part, part, part.rstrip()]


def test_white_space_beside_numbers_latin_letters_and_signs_of_repetition_parts_no_clauses() -> (
    None
):
    line = "เขา 5 คน ใช้ iPhone เก่า ๆ ใน กรุงเทพฯ ทุก วัน"
    parts = LineSplitter(len, 1000, True, 1).split(line, [])
    expected = "เขา 5 คน | ใช้ iPhone เก่า ๆ ใน | กรุงเทพฯ ทุก | วัน"
    assert " | ".join(map(str.strip, parts)) == expected


def test_the_clauses_of_nearly_all_lines_in_training_are_counted() -> None:
    assert usual_clauses(["I go home", "나는 간다"]) is None
    assert usual_clauses(["ฉันกลับบ้าน", "I go home", "ຂ້ອຍ"]) == 1
    assert usual_clauses(["ฉัน กลับ บ้าน"] * 2 + ["ฉัน"]) == 3
    assert usual_clauses(["ฉันกลับบ้าน"] * 199 + ["ฉัน กลับ บ้าน"]) == 1


UNITS = "།,། ,ང།,དང། ,α; ,α;,ա: ,።,ብ::,ብ፡፡,क|,क| ,है.व,۔,اے۔,។ល។,ก ,ก  ,a. b ,iA. i,a.) b ,etc. a ,؟ا,?ก,；"


@pytest.mark.parametrize("unit", [*UNITS.split(","), " ", ";", "|"])
def test_any_text_takes_linear_time(unit: str) -> None:
    text = "ก" + unit * (LONG // len(unit))
    with time_limit():
        layout = split_text(text)
        assert layout.join(layout.lines) == text
        sum(1 for _ in clause_ends(text))


def test_ends_are_those_of_each_half() -> None:
    """A text that stops after a sentence is split as it is within the whole, whatever follows."""
    rng = random.Random(3)
    for _ in range(3_000):
        text = "".join(rng.choices(PIECES_OF_SCRIPTS, k=rng.randint(1, 30)))
        ends = [*sentence_ends(text)]
        for count, end in enumerate(ends):
            again = [*sentence_ends(text[: end + 1])]
            assert again[:count] == ends[:count]
