"""Letters, mnemonics and spans are in JavaScript as in the package: the tables are fresh, and the
rules give the same.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from regard.data.copy_tokens import (
    COPIED,
    COPY_CHARACTERS,
    Copies,
    copied_spans,
    with_copies,
)
from regard.data.letter_case import letter_case
from regard.data.spans import KEPT_ON_RETRY, find_spans
from regard.text.aligned_line import AlignedLine
from regard.text.casing import CaseReader
from regard.text.mnemonics import insert_mnemonic, strip_mnemonic
from regard.text.particles import PARTICLES, both_particles
from regard.text.protected_line import protect_line
from tests.cli.labels import labels
from tests.data.test_letter_case import LETTERS, generated
from tests.data.test_spans import SPANS
from tests.text.test_mnemonics import TEXT
from tests.text.test_particles import LEFT, REWRITTEN, spans

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tools"))
import make_text_tables  # noqa: E402

CODES = "tr tur TR_tr az aze_Latn aze-Cyrl crh el ell gre-GR lt nl dut de ger hy arm kk kk-Latn kaz_Latn kk@latin kaz"
CODES += " kk_KZ tt-Latn-RU tt ba-Latn kaa en en-US ko zh-Hans x-own de_DE.UTF-8"
TITLES = [
    "Close The Last Window Of Regard",
    "Close The Last",
    "Save as PDF and Close the Window",
    "ONE LINE. ANOTHER, with ßmall letters",
    "EINE GROßE STRAßE",
    ">>tur<< İPTAL ET",
    ">>el<<ΑΚΥΡΩΣΗ ΤΩΡΑ",
    "ՀԱՅՐ ԵՎ ՈՐԴԻ",
    "A",
    "PDF",
    "𝐀𝐁 C",
    "ǅUNGLA ǄEP",
    "ᲗᲑᲘᲚᲘᲡᲘ",
    "ΟΔΟΣ. ΤΟ ΌΝΟΜΑ ΜΟΥ ΚΑΙ Ο ΔΡΟΜΟΣ",
    "'S AVONDS SLAAPT IJS. 'T IJS SMELT",
    "HELLO 🙂 WORLD… THIS, THAT",
]
TAGS = (
    " | | |the |house|red |(big) |12|, |. |“|”|집을|& |< |é|\n|<b>|</b>|<i>|</i>|<b> | </b>|"
    "<br/>|<x id='1'/>|<p>|</p>|</q>|<a href=\"x y\">|</a>|<u translate='no'>|</u>|"
    "<i class='notranslate'>|<sup>2</sup>|<i>…</i>|<s k=\"v>|&lt;b&gt;"
)
"""Parts of lines with tags, joined by bars."""
LABELS_OF_CONTROLS = (
    "_File|&Open the file…|E&xit|E_xit now|~File|열기(_O)…|파일 열기 (&2)|_Файл|R&D|x_y|&|"
    "&Open {file_name}…|_Open Recent Files Again|Don't &Ask Me Again|Ş&ekil Kaydet|"
    "Alle Dateien &Öffnen und Schließen…|&Mary drinks tea with John.|_so_ it is|rock&roll|"
    "a %s &b|ßa &s"
)
LABELS = LABELS_OF_CONTROLS.split("|")


def test_the_tables_are_those_of_the_package() -> None:
    written = make_text_tables.MODULE.read_text(encoding="utf-8")
    assert written == make_text_tables.module(), "run tools/make_text_tables.py"


def encode(text: str) -> list[int]:
    """Return made-up token ids, of three characters each, as in text_rules.mjs."""
    ids = list[int]()
    for start in range(0, len(text), 3):
        total = 7
        for letter in text[start : start + 3]:
            total = (31 * total + ord(letter)) % 997
        ids.append(total)

    return ids


Links = list[tuple[int, int]]
Answer = dict[str, Any]


def tagged_lines() -> list[tuple[str, list[tuple[str, Links | None]]]]:
    """Return lines with tags and other spans, and made-up translations of their parts, with links
    or without.
    """
    draw = random.Random(4)
    spans = [
        span for kind, of_kind in SPANS.items() if kind != "tag" for span in of_kind
    ]
    tags = TAGS.split("|")
    weights = [8] * len(tags) + [1] * len(spans)
    tagged = []
    for _ in range(1200):
        line = "".join(draw.choices(tags + spans, weights, k=draw.randint(3, 24)))
        protected = protect_line(line, kinds=KEPT_ON_RETRY)
        if protected is None or "\u200b" in "".join(protected.lines):
            continue
        translations = [translation_of(part, draw) for part in protected.lines]
        tagged.append((line, translations))
    return tagged


def copied_lines(draw: random.Random) -> list[tuple[str, str]]:
    """Return lines with spans, and made-up translations with copy characters."""
    spans = [
        span for kind, of_kind in SPANS.items() if kind in COPIED for span in of_kind
    ]
    parts = [*spans, "집 ", " go ", "을 ", "(", ". "]
    words = [*COPY_CHARACTERS[:3] * 2, *"집 go  (.家"]
    lines = []
    for _ in range(1000):
        line = "".join(draw.choices(parts, k=draw.randint(1, 7)))
        text = "".join(draw.choices(words, k=draw.randint(1, 9))).strip()
        if copied_spans(line):
            lines.append((line, text))
    return lines


def lines_with_particles(draw: random.Random) -> list[tuple[str, Links]]:
    """Return texts with particles after placeholders, and the offsets of these."""
    parts = [
        "{a}",
        "%s",
        "{b}",
        "🙂",
        " ",
        "(",
        ")",
        "/",
        "”",
        "'",
        "_",
        "도",
        "서",
        "집",
    ]
    weights = [9, 9, 9, *[2] * 11, *[3] * len(PARTICLES)]
    texts = [text for text, _ in REWRITTEN] + LEFT.split("|")
    texts += [
        "".join(draw.choices([*parts, *PARTICLES], weights, k=draw.randint(2, 12)))
        for _ in range(2000)
    ]
    return [(text, spans(text)) for text in texts]


def translation_of(part: str, draw: random.Random) -> tuple[str, Links | None]:
    words = part.split(" ")
    others = [*words, "das", "Haus.", "(und)", "12", "“x”"]
    target = draw.choices(others, k=draw.randint(1, len(words) + 2))
    links = set()
    for _ in range(draw.randint(0, 2 * len(words))):
        links.add((draw.randrange(len(words)), draw.randrange(len(target))))
    text = part if draw.random() < 0.1 else " ".join(target)
    return text, sorted(links) if draw.random() < 0.8 else None


@pytest.fixture(scope="module")
def answers(node: str) -> tuple[Answer, Answer]:
    """Return questions, and the answers of JavaScript, in one process."""
    draw = random.Random(3)
    labelled = [*TITLES, *LABELS]
    words = [
        (code, word) for code in LETTERS for word in draw.sample(generated(code), 400)
    ]
    for code in ("", "hy", "de", "nl"):
        words += [(code, word) for word in " ".join(labelled).split()]
    lines = []
    for code in ("tr", "el", "lt", "nl", "de", "hy", ""):
        lines += [(code, "tr", line) for line in labelled]
    for code in ("tr", "el", "lt", "nl"):
        lines += [(code, "el", capitals) for _, capitals in labels(code)]
    for code in ("nl", ""):
        lines += [(code, "", line.title()) for line in TEXT]
    parts = [span for spans in SPANS.values() for span in spans]
    parts += ["집 ", " go ", "e\u0301", "12", "ä ", ".", "\u200b"]
    texts = ["".join(draw.choices(parts, k=draw.randint(1, 9))) for _ in range(2000)]
    texts += [unicodedata.normalize("NFD", text) for text in texts[:300]]
    question = {
        "codes": CODES.split(),
        "words": words,
        "lines": lines,
        "texts": texts,
        "tagged": tagged_lines(),
        "copied": copied_lines(draw),
        "particles": lines_with_particles(draw),
    }
    command = [node, str(HERE / "text_rules.mjs")]
    done = subprocess.run(
        command,
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr

    return question, json.loads(done.stdout)


def assert_equal(
    questions: Sequence[Any],
    results: Sequence[Any],
    expected: Sequence[Any],
) -> None:
    rows = zip(questions, results, json.loads(json.dumps(expected)), strict=True)
    assert [row for row in rows if row[1] != row[2]][:5] == []


def test_languages_have_the_same_rules(answers: tuple[Answer, Answer]) -> None:
    question, result = answers
    names = [
        type(letter_case(code)).__name__.removeprefix("_") for code in question["codes"]
    ]
    assert_equal(question["codes"], result["names"], names)


def test_letters_change_as_in_the_package(answers: tuple[Answer, Answer]) -> None:
    question, result = answers
    cases = [(letter_case(code), word) for code, word in question["words"]]
    expected = [
        (case.upper(word), case.lower(word), case.initial(word), case.spellings(word))
        for case, word in cases
    ]
    assert_equal(question["words"], result["words"], expected)


def test_lines_and_labels_are_read_as_in_the_package(
    answers: tuple[Answer, Answer],
) -> None:
    question, result = answers
    expected = []
    changed = 0
    for source, target, line in question["lines"]:
        reader = CaseReader((source, target), encode)
        known = reader.read(line)
        tokens = known.restore_tokens([*line[:9]])
        read = (
            known.line,
            known.restore(line),
            known.restore_source(known.line),
            tokens,
        )
        label, mnemonic = strip_mnemonic(line, encode)
        marked = mnemonic and insert_mnemonic(line, mnemonic, reader.source)
        expected.append((read, (label, mnemonic, marked)))
        changed += known.line != line

    assert_equal(question["lines"], result["lines"], expected)

    assert changed > 200


def test_spans_are_those_of_the_package(
    answers: tuple[Answer, Answer],
) -> None:
    question, result = answers
    expected = []
    for line in question["texts"]:
        spans = [(span.kind, line[span.start : span.end]) for span in find_spans(line)]
        expected.append(spans)

    assert_equal(question["texts"], result["spans"], expected)


def test_copied_spans_and_their_words_are_those_of_the_package(
    answers: tuple[Answer, Answer],
) -> None:
    question, result = answers
    expected = []
    for line, text in question["copied"]:
        places = copied_spans(line)
        copies = Copies.of(line, places, COPY_CHARACTERS)
        marked = with_copies(line, [*zip(places, COPY_CHARACTERS, strict=False)])
        words = [[*map(list, copies.restored_words(one))] for one in (marked, text)]
        expected.append((marked, copies.restore(text), *words))

    assert_equal(question["copied"], result["copied"], expected)


def test_particles_are_written_as_in_the_package(
    answers: tuple[Answer, Answer],
) -> None:
    question, result = answers
    expected = [both_particles(*question) for question in question["particles"]]
    pairs = zip(question["particles"], expected, strict=True)

    assert sum(text != both for (text, _), both in pairs) > 500

    assert_equal(question["particles"], result["particles"], expected)


def test_tags_are_put_back_as_in_the_package(answers: tuple[Answer, Answer]) -> None:
    question, result = answers
    expected = []
    for line, translations in question["tagged"]:
        protected = protect_line(line, kinds=KEPT_ON_RETRY)

        assert protected is not None

        text = protected.render(
            [AlignedLine(text, links) for text, links in translations]
        )
        expected.append((protected.lines, text))

    assert len(expected) > 700

    assert_equal(question["tagged"], result["tagged"], expected)
