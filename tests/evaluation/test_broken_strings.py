"""The strings of a file are judged by the dialects that are given, flagged or recognised."""

from __future__ import annotations

import pytest

from regard.data.pairs import Pair
from regard.evaluation.broken_strings import StringJudge, flagged_dialect

FLAGS = {1: ["c-format"], 2: ["python-brace-format"], 3: ["no-c-format", "no-wrap"]}
PAIRS = [
    Pair("Delete %d of %s?", "Löschen?", 1),  # broken in c
    Pair("Hello {name}", "Hallo {nam}", 2),  # broken in python-brace
    Pair("50 %d oder so", "50 %d or so", 3),
    Pair("{ $name } sleeps", "{ $nam } schläft", 4),  # broken in fluent
    Pair("{ $name } eats", "", 5),
]


@pytest.mark.parametrize(
    ("name", "flags", "lines", "notes"),
    [
        (None, {}, set(), ()),
        (
            None,
            FLAGS,
            {1, 2},
            (
                "1 string judged as c (by flag)",
                "1 string judged as python-brace (by flag)",
                "1 string judged as plain (by flag)",
            ),
        ),
        (
            "auto",
            FLAGS,
            {1, 2, 4},
            (
                "1 string judged as c (by flag)",
                "1 string judged as python-brace (by flag)",
                "1 string judged as plain (by flag)",
                "1 string judged as fluent (recognised from all together)",
            ),
        ),
        ("c-format", FLAGS, {1}, ("4 strings judged as c (as given)",)),
    ],
)
def test_a_dialect_is_given_or_flagged_or_recognised(
    name: str | None,
    flags: dict[int, list[str]],
    lines: set[int],
    notes: tuple[str, ...],
) -> None:
    judge = StringJudge(name, flags)
    suspects = judge(PAIRS)
    assert {suspect.line for suspect in suspects} == lines
    assert judge.notes == notes


def test_a_string_alone_is_judged_as_all_of_its_file() -> None:
    others = [Pair(f"Save %d {n}", f"%d {n}", n) for n in range(2, 8)]
    odd = Pair("{name} of 100%", "{name} von 100%", 1)
    judge = StringJudge("auto", {})
    judge([odd, *others])
    assert judge.notes == ("7 strings judged as c (recognised from all together)",)


@pytest.mark.parametrize(
    ("flags", "dialect"),
    [
        ("", None),
        ("fuzzy no-wrap", None),
        ("no-c-format", "plain"),
        ("no-c-format java-printf-format", "java"),
        ("kde-format c-format", "qt"),
    ],
)
def test_flags_name_a_dialect(flags: str, dialect: str | None) -> None:
    assert flagged_dialect(flags.split()) == dialect
