"""JavaScript keeps the contracts of strings of programs as Python does: spans, dialects, faults,
and what a line becomes that a translation would break.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pytest
from contracts.string_cases import DIALECTS, FOLDER, benchmark, lines
from helpers.time_limits import LEAST

from regard.contracts.dialects import get_dialect, table
from regard.contracts.recognise import recognise
from regard.contracts.spans import scan
from regard.data.copy_tokens import COPY_CHARACTERS
from regard.text.casing import CaseReader
from regard.text.contracts import AUTO, breaches, code_spans
from regard.text.text_path import Links, PathRules, Request, lines_path, run_path
from regard.text.translation import TranslatedPart, Translation

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "tools"))
import make_text_tables  # noqa: E402

FAULTS = benchmark("plant_faults")
T = TypeVar("T")
SLOW = pytest.mark.slow
PLANTED = 700
DEEP = 1000
MESSAGES = (
    ("icu", "{n, plural, one {# cup} other {# cups}}", "{n, plural, one {# Tasse}}"),
    (
        "icu",
        "{n, plural, one {# cup} other {# cups}",
        "{n, plural, one {a} one {b} other {c}}",
    ),
    (
        "icu",
        "{n, select, a {x} other {y {z}}} and {0,",
        "{n, select, a {x} b {v} other {y}} 😀 {,}",
    ),
    (
        "messageformat",
        "{0,choice,0#no cups|1#one cup|1<{0} cups}''",
        "{0,choice,0#keine|2<{0} Tassen}'",
    ),
    (
        "fluent",
        "{ $n -> [one] a cup *[other] { $n } cups }",
        "{ $n -> [one] eine Tasse }",
    ),
    (
        "angular",
        "{{ name | title }} {n, plural, =1 {one} other {{{n}} cups}}",
        "{n, plural, other {x}}",
    ),
    (
        "plain",
        "It costs 1,234,567.50, 1 234 at 3 pm, ٢٥ and 123456789012345678,123,123,123,123",
        "1.234.567,5",
    ),
    ("plain", "3 İstanbul cups at 3 pm, 2 cups\x1f\x85", "üçEİN eın Zweİ 15"),
    ("srt", "<i>♪ word</i>", "x"),
    ("srt", "- Word\ufeff here\n", "- Wort hier"),
    ("xml", "a <![CDATA[<b>]]> b", "a <b>"),
)
"""Dialects with hostile strings, and their translations."""
PARTS = (
    "{n, plural, one {|# cup|} other {|}}|{0,choice,0#|{ $n -> [one] | *[other] |{{#if a}}|{{/if}}|"
    "<b>|</b>|[b]|[/b]|<1>|</1>|<a href='x>y'>|</a>|<![CDATA[|]]>|<p>|**|_x_|%1$s|%d|%%|{name}|$5|"
    "1,299.99| 25 km|€|°|'|''|\"|\\n|\\'|&amp;|&nbsp;|&File|:name|@user|a@b.eu|C:\\x.txt|--help|"
    "\u0665|\u00a0|\x1f|\n|\ufeff|\u200b|😀|👩🏽|é|e\u0301|한글|Ω|λόγος |{|}|isn\\'t |isn''t |don't |(|)|, |. | and |word |Open the |FILE "
)
"""Parts of made-up strings, joined by bars."""


def messages() -> Iterator[tuple[str, str, str]]:
    """Yield malformed and deeply nested messages with translations and their dialects."""
    for dialect, line, translation in MESSAGES:
        yield line, translation, dialect
    for dialect, start, end in (
        ("icu", "{n, plural, one {a} other {", "}}"),
        ("fluent", "{ $n -> *[other] b ", "}"),
        ("html", "<b>", "</b>"),
        ("latex", "\\emph{", "}"),
    ):
        deep = start * DEEP + "x 12 %" + end * DEEP
        yield deep, deep.replace("12", "3"), dialect
        yield deep, deep[:-1], dialect


def made_up(count: int) -> Iterator[tuple[str, str]]:
    """Yield strings of drawn parts, each with another as its translation."""
    draw = random.Random(9)
    parts = PARTS.split("|")
    for _ in range(count):
        drawn = draw.choices(parts, k=draw.randint(1, 12))
        changed = [part for part in drawn if draw.random() < 0.9]
        draw.shuffle(changed)
        yield "".join(drawn), "".join(changed)


def share(rows: list[T], part: int) -> list[T]:
    """Return one of three shares of rows, drawn."""
    return random.Random(3).sample(rows, len(rows))[part::3]


@pytest.fixture(
    scope="module", params=[0, *(pytest.param(n, marks=SLOW) for n in (1, 2))]
)
def part(request: pytest.FixtureRequest) -> int:
    """Return the number of a share of the drawn strings."""
    return int(request.param)


@pytest.fixture(scope="module")
def cases(part: int) -> list[tuple[str, str, str]]:
    """Return strings with translations, right and wrong, and dialects."""
    rows = [*lines()]
    text = (FOLDER / "handwritten.jsonl").read_text(encoding="utf-8")
    rows += map(json.loads, text.splitlines())
    pairs = [*FAULTS.right_translations(rows)]
    for plants in (FAULTS.PLANTS, (FAULTS.edit,)):
        planted = islice(FAULTS.planted(rows, 3, plants), PLANTED)
        pairs += [(line, broken) for _, line, broken in planted]
    given = [(line["text"], broken, line["dialect"]) for line, broken in pairs]
    turns = [*DIALECTS, AUTO, AUTO, AUTO]
    for number, pair in enumerate(made_up(1000)):
        given.append((*pair, turns[number % len(turns)]))
    return [*messages(), *share(given, part)]


@pytest.fixture(scope="module")
def paths(part: int) -> list[tuple[str, str, int]]:
    """Return lines with a dialect and the number of copy tokens of the model."""
    given = []
    for number, line in enumerate(lines()):
        dialect = AUTO if number % 2 else line["dialect"]
        given.append((line["text"], dialect, number % 3))
    given += [(f">>de<< {line}", dialect, count) for line, dialect, count in given[::9]]
    for number, (line, _) in enumerate(made_up(800)):
        given.append(
            (line, [AUTO, *DIALECTS][number % (len(DIALECTS) + 1)], number % 3)
        )
    given = share(given, part)
    given += [(line, dialect, 0) for line, _, dialect in messages() if len(line) < 900]
    return [(line.replace("\n", " "), *rest) for line, *rest in given if line.strip()]


@pytest.fixture(scope="module")
def answers(
    node: str, cases: list[tuple[str, str, str]], paths: list[tuple[str, str, int]]
) -> dict[str, Any]:
    """Return the answers of JavaScript, in one process."""
    done = subprocess.run(
        [node, str(HERE / "contract_rules.mjs")],
        input=json.dumps({"cases": cases, "paths": paths}),
        capture_output=True,
        text=True,
        timeout=4 * LEAST,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_table_is_that_of_the_package(answers: dict[str, Any]) -> None:
    written = make_text_tables.CONTRACTS.read_text(encoding="utf-8")
    assert written == make_text_tables.contracts_module(), (
        "run tools/make_text_tables.py"
    )
    own = {key: table()[key] for key in table().keys() - make_text_tables.NOT_JUDGED}
    without = {"example"}  # which only the documentation shows
    own["dialects"] = {
        name: {key: entry[key] for key in entry.keys() - without}
        for name, entry in own["dialects"].items()
    }
    assert answers["table"] == own


def test_spans_dialects_and_faults_are_those_of_the_package(
    cases: list[tuple[str, str, str]], answers: dict[str, Any]
) -> None:
    for (line, translation, dialect), answer in zip(
        cases, answers["cases"], strict=True
    ):
        where = (line[:300], dialect)
        code = [[*code] for code in code_spans(line, dialect)]
        assert answer["code"] == code, where
        spans = [] if dialect == AUTO else scan(line, get_dialect(dialect))
        names = ("kind", "key", "text", "start", "end", "name")
        expected = [[getattr(span, name) for name in names] for span in spans]
        assert answer["spans"] == expected, where
        assert answer["recognised"] == recognise([line]), where
        faults = breaches(line, translation, dialect)
        wrong = [[one.kind, one.what, one.detail, one.span] for one in faults]
        assert answer["faults"] == wrong, (where, translation)


def fake_translation(text: str, has_links: bool) -> tuple[str, Links]:
    """Change the words of a text as `fakeTranslation` of contract_rules.mjs does."""
    words = text.split(" ")
    number = 7
    for letter in text:
        number = (31 * number + ord(letter)) % 1009
    at = number % len(words)
    changes = (
        words,
        words,
        [word for index, word in enumerate(words) if index != at],
        words[::-1],
        [*words, "{x}"],
        [*words[:at], *words[at - len(words) :]],
        [*words[:at], "Xy", *words[at + 1 :]],
        ["".join("o" if "a" <= c <= "z" else c for c in word) for word in words],
        [*words[:at], "%", *words[at - len(words) :]],
    )
    target = changes[number % len(changes)]
    count = min(len(words), len(target))
    links = tuple((index, index) for index in range(count))
    return " ".join(target), links if has_links and number % 5 else None


def encode(text: str) -> list[int]:
    """Return made-up token ids of a model that knows no Greek letters, as in contract_rules.mjs."""
    return [ord(c) for c in text for _ in range(3 if "\u0370" <= c < "\u0400" else 1)]


def python_path(line: str, dialect: str, copies: int) -> dict[str, Any]:
    """Return what a line becomes in Python by the fake model."""
    asked = []

    def decode(request: Request) -> list[Translation]:
        asked.append([*request.lines])
        results = []
        for source in request.lines:
            text, links = fake_translation(source, request.links)
            part = TranslatedPart(source, text, 0.0)
            results.append(Translation(text, (), 0.0, links, parts=(part,)))
        return results

    reader = CaseReader(("", ""), encode)
    rules = PathRules(reader, COPY_CHARACTERS[:copies], dialect=dialect)
    (result,) = run_path(lines_path([line], rules, [True]), decode)
    return {
        "text": result.text,
        "broken": result.broken,
        "notes": [*result.notes],
        "parts": [[part.source, part.text] for part in result.parts],
        "asked": asked,
    }


def test_lines_become_what_they_become_in_the_package(
    paths: list[tuple[str, str, int]], answers: dict[str, Any]
) -> None:
    broken = 0
    for row, answer in zip(paths, answers["paths"], strict=True):
        assert answer == python_path(*row), row
        broken += answer["broken"]
    assert broken > len(paths) / 19
