"""The judge speaks of faults that were planted by characters, and is silent on translations that
keep their spans.
"""

from __future__ import annotations

import random
from itertools import islice

import pytest
from contracts.string_cases import DIALECTS, benchmark, lines
from helpers.text_table import blocks

from regard.common.errors import UsageError
from regard.contracts.judge import judge
from regard.contracts.spans import MASK, STAND_IN

FAULTS = benchmark("plant_faults")
HARMLESS = {
    ("glue", "{{"),
    ("glue", "}}"),
    ("glue", "%%"),
    ("glue", "17"),
    ("glue", "25"),
    ("glue", "{'@'}"),
    ("glue", "20\\%"),
    ("glue", "{% for cup in cups %}"),
    ("glue", "{{#if guest}}"),
    ("repeat", "|town|"),
    ("double", "## "),
    ("double", "# "),
    ("double", "~~"),
    ("double", "> "),
    ("double", "- [ ] "),
}
"""Faults with the spans concerned that are none, or that the judge does not know: a number beside
a short word, as of a unit, an escape beside a word, a mark of a line twice, an empty pair.
"""

SILENT = """
c | %s sent %s a letter. | %s hat %s einen Brief geschickt.
c | Save "%s"… | „%s“ wird gespeichert ...
c | Save "%s" | 《%s》 저장
plain | A 5" nail | Ein Nagel von 5 Zoll
c | %s ate %d plums. | %2$d Pflaumen aß %1$s.
python-brace | {name} sleeps. | {name}은(는) 잡니다.
plain | {name} sleeps. | {name}이 잡니다.
plain | Open %1$s now. | %1$s를 지금 여세요.
plain | Open %s now. | 今すぐ%sを開く。
plain | It costs 1,000 dollars. | Es kostet 1.000 Dollar.
plain | It costs 1,000 dollars. | Ça coûte 1 000 dollars.
plain | It costs 1,234.50 dollars. | Es kostet 1.234,5 Dollar.
plain | We counted 20,000 birds. | 새를 2만 마리 셌습니다.
plain | We counted 1,00,000 birds. | Wir zählten 100.000 Vögel.
plain | 3 children are here. | Drei Kinder sind hier.
plain | Three children are here. | 3 Kinder sind hier.
plain | Try it 3 times. | 세 번 시도하세요.
plain | Try it 3 times. | 세번 시도하세요.
plain | The 2 of us go. | 우리 둘이 갑니다.
plain | It opens on 4 May. | 오월 4일에 엽니다.
plain | 5 of them came. | 다섯이 왔다.
plain | Agent 007 is here. | 007 요원이 왔다.
plain | We meet at 2:45 pm today. | Wir treffen uns heute um 14:45 Uhr.
plain | We have 25 plums. | لدينا ٢٥ خوخة.
plain | €20 for a hat | 20 € für einen Hut
plain | 20 euros for a €5 hat | 20 Euro für einen Hut zu 5 Euro
plain | Where is the tall tree, Anna? | Где высокое дерево, Анна?
icu | {n, plural, one {# cup} other {# cups}} | {n, plural, other {컵 #개}}
icu | {n, plural, one {A cup} other {# cups}} | {n, plural, one {# чашка} few {# чашки} many {# чашек} other {# чашки}}
icu | {n, plural, offset:1 =0 {none} other {# of them}} | {n, plural, offset:1 =0 {niemand} other {# davon}}
icu | {name} isn't here. | {name} n'est pas là.
fluent | { $n -> [one] One cup *[other] { $n } cups } | { $n -> [one] Eine Tasse [few] { $n } Tassen *[other] { $n } Tassen }
fluent | { $name } sleeps. | {$name} schläft.
qt | &Open | 열기(&O)
android | It isn\\'t here. | Es ist nicht hier.
html | <b>Fresh</b> and <i>warm</i> | <i>Warm</i> und <b>frisch</b>
html | A <a href="/x" title="Bread">loaf</a> | Ein <a href="/x" title="Brot">Laib</a>
html | A <b>red</b>{name} | Ein <b>roter</b>{name}
markdown | A *warm* bath | Ein *warmes* Bad
plain | Ha ha ha ha, he laughed. | Ha ha ha ha, lachte er.
"""
SPOKEN = """
moved | c | %s ate %d plums. | Pflaumen aß %d %s.
lost | c | %s sent %s a letter. | %s hat einen Brief geschickt.
doubled | c | %s sleeps. | %s schläft %s.
invented | c | The cat sleeps. | Die Katze %s schläft.
altered | c | %5d plums | %6d Pflaumen
altered | c | %1$s sleeps. | %2$s schläft.
glued | plain | %1$S sleeps well. | %1$Szer schläft gut.
glued | plain | A man runs to %s today. | Ein Mann läuft heute zu%s.
altered | plain | {user_name} sleeps. | {username} schläft.
lost | plain | It costs €20. | Es kostet 20.
lost | plain | 20% wool | 20 Wolle
altered | plain | It costs 1,000 dollars. | Es kostet 1.001 Dollar.
lost | plain | We have 25 plums. | Wir haben Pflaumen.
lost | plain | First line.\\nSecond line. | Erste Zeile. Zweite Zeile.
escape | android | It isn\\'t here. | C'est ailleurs.
invented | messageformat | {0} isn''t here. | {0} n'est pas là.
branch | icu | {g, select, girl {She} other {They}} | {g, select, other {Sie}}
branch | icu | {g, select, girl {She} other {They}} | {g, select, Mädchen {Sie} girl {Sie} other {Sie}}
branch | icu | {n, plural, =0 {none} other {#}} | {n, plural, other {#}}
malformed | icu | {n, plural, one {x} other {y}} | {n, plural, one {x}}
malformed | icu | {n, plural, other {#}} | {n, plural, other {#}
lost | icu | {n, plural, other {# cups}} | {n, plural, other {Tassen}}
altered | icu | {n, plural, offset:1 other {# cups}} | {n, plural, other {# Tassen}}
branch | messageformat | {0,choice,0#none|1#one} | {0,choice,0#keine}
malformed | fluent | { $n -> [one] x *[other] y } | { $n -> [one] x [other] y }
unpaired | html | <b>Fresh</b> bread | </b>Frisches<b> Brot
unpaired | html | <b>Fresh <i>bread</i></b> | <b>Frisches <i>Brot</b></i>
unpaired | html | <b>Fresh</b> bread | <b></b>Frisches Brot
moved | html | <b>Fresh {name}</b> bread | <b>Frisches</b> Brot {name}
moved | html | <b>Fresh <i>bread</i></b> | <i>Frisches <b>Brot</b></i>
lost | markdown | ## Fresh bread | Frisches ## Brot
altered | html | A <a href="/x">loaf</a> | Ein <a href="/y">Laib</a>
untranslated | plain | The cat is asleep again. | The cat is asleep again.
untranslated | plain | The cat is asleep on the warm roof again. | Die Katze is asleep on the warm Dach wieder.
repeated | plain | The cat is asleep. | Die Katze Katze Katze schläft.
repeated | plain | A red shirt | Ein kommuniziziziziz Hemd
segment | plain | The cat is asleep. The dog is awake. | Die Katze schläft.
space | plain | A hat for €20 or more | Ein Hut auf einem20 € oder mehr
space | plain | It costs 20 dollars. | Es kostet 20Dollar.
space | plain | We have 20% wool. | Wir haben 20%wolle.
space | plain | The cat is asleep. | Die  Katze schläft.
space | plain | The cat is asleep. | Die Katze schläft .
bracket | plain | The cat (a grey one) sleeps. | Die Katze (eine graue schläft.
length | plain | A neighbour gave us a basket of plums yesterday. | Ja.
length | plain | Save | _
"""


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("You have 3 attempts left.", "다시 시도하세요."),
        ("You have 3 attempts left.", "다시 시도하십시오."),
        ("2 thick names", "두꺼운 이름"),
        ("2 files", "이 파일"),
        ("1 file", "한국어 파일 선택한 일"),
        ("4 users", "사용자, 네트워크"),
        ("7 boards", "칠판"),
        ("10 files", "파일 열기"),
        ("10 files", "파일을 열 수 없습니다"),
        ("003 Transformer", "천3"),
        ("002 The paper", "용지2"),
    ],
)
def test_a_number_is_lost_though_a_word_has_its_letters(
    source: str, target: str
) -> None:
    faults = judge(source, target)
    assert [fault.what for fault in faults if fault.span == "number"] == [
        source.split()[2 if source.startswith("You") else 0]
    ]


@pytest.mark.parametrize("case", *blocks(SILENT))
def test_silent_where_the_contract_is_kept(case: str) -> None:
    dialect, source, target = case.split(" | ")
    assert judge(source, target, dialect) == []


@pytest.mark.parametrize("case", *blocks(SPOKEN))
def test_speaks_where_the_contract_is_broken(case: str) -> None:
    kind, dialect, source, target = case.split(" | ")
    faults = judge(source, target, dialect)
    assert kind in {fault.kind for fault in faults}

    for fault in faults:
        assert fault.detail
        assert not {STAND_IN, MASK} & {*fault.what}


def test_spaces_at_the_ends_are_part_of_the_contract() -> None:
    assert [fault.kind for fault in judge("Name: ", "Nom :")] == ["space"]
    assert judge("  Name: ", "  Nom: ") == []


def test_an_empty_translation_is_one_of_the_faults() -> None:
    assert [fault.kind for fault in judge("OK", "")] == ["length"]
    assert judge("", "") == judge("%s", "%s", "c") == []
    assert {fault.kind for fault in judge("%s", "", "c")} == {"lost"}


def test_unknown_dialects_are_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"'klingon'.*android"):
        judge("a", "b", "klingon")


def test_right_translations_are_not_spoken_of() -> None:
    cases = list(FAULTS.right_translations(lines()))
    assert len(cases) > len(lines())

    alarms = [
        (line["text"], text, faults)
        for line, text in cases
        if (faults := judge(line["text"], text, line["dialect"]))
    ]
    assert not alarms


@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_planted_fault_is_spoken_of(dialect: str, first: int) -> None:
    """In each string of a dialect each fault is planted that fits in; half of the translations are
    judged.
    """
    draw = random.Random(20261129)
    own = [line for line in lines() if line["dialect"] == dialect]
    missed = []
    count = 0
    for number, (line, text) in enumerate(FAULTS.right_translations(own)):
        for plant in FAULTS.PLANTS:
            broken = plant(draw, text, line)
            if broken == text:
                continue
            count += 1
            if number // 2 % 2 != first:
                continue
            kinds = ((plant.__name__, FAULTS.bare(span)) for span in line["spans"])
            is_harmless = not HARMLESS.isdisjoint(kinds)
            if not is_harmless and not judge(line["text"], broken, dialect):
                missed.append((plant.__name__, line["text"], broken))
    assert count > 3 * len(own)
    assert not missed


def test_recall_of_a_drawn_thousand() -> None:
    cases = islice(FAULTS.planted(lines(), seed=2), 1000)
    hits = [bool(judge(line["text"], text, line["dialect"])) for _, line, text in cases]
    assert sum(hits) >= 970


@pytest.mark.parametrize(
    ("source", "target", "what"),
    [
        ('Save "%s"', "%s sichern", '"'),
        ("Save “%s” now", "„%s jetzt sichern", '"'),
        ("Save %s…", "%s wird gesichert", "…"),
        ("Save %s...", "%s wird gesichert..", "…"),
        ("Save %s", '"" %s sichern', '""'),
    ],
)
def test_quotation_marks_and_ellipses_stay(source: str, target: str, what: str) -> None:
    (fault,) = judge(source, target, "c")
    assert fault.what == what
    assert not fault.breaks_programs
