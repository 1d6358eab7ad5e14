"""Spans that copy tokens stood for come back parted from their neighbours as in their line."""

from __future__ import annotations

import pytest

from regard.data.copy_tokens import COPY_CHARACTERS, Copies, copied_spans, with_copies
from regard.text.protected_line import protect_line

A, B = COPY_CHARACTERS[:2]


@pytest.mark.parametrize(
    ("line", "translation", "restored"),
    [
        ("Open {a}", f"Öffne{A}", "Öffne {a}"),
        ("Open {a} now", f"{A}", "{a}"),
        ("Open {a} now", f"Jetzt{A}öffnen", "Jetzt {a} öffnen"),
        ("Open {a}", f"{A}을 열기", "{a}을 열기"),
        ("Open {a}", f"打开{A}", "打开{a}"),
        ("Open {a} now", f"{A}。", "{a}。"),
        ("Open ({a})", f"Öffne ({A})", "Öffne ({a})"),
        ("Open “{a}”", f"Öffne{A}", "Öffne {a}"),
        ("Open {a}", f"Öffne ({A})", "Öffne ({a})"),
        ("Open pre{a}", f"Öffne pre{A}", "Öffne pre{a}"),
        ("{a}s", f"{A}e", "{a}e"),
        ("{a}{b}", f"{A}{B}", "{a}{b}"),
        ("{a} {b}", f"{A}{B}", "{a} {b}"),
        ("{a} {b}", f"{B}{A}", "{b} {a}"),
        ("{a}{b}", f"{B}{A}", "{b}{a}"),
        ("a: {a}", f"a:{A}.", "a: {a}."),
        ("a:{a}", f"a:{A}", "a:{a}"),
        ("See {a} now", f"<b>Jetzt</b>{A}", "<b>Jetzt</b> {a}"),
    ],
)
def test_spans_stand_apart_as_in_their_line(line: str, translation: str, restored: str) -> None:
    protected = protect_line(line, False, COPY_CHARACTERS)
    assert protected is not None
    assert protected.copied.restore(translation) == restored


def test_the_model_reads_no_space_before_a_copy_character() -> None:
    protected = protect_line("Open {a} and ({b})", False, COPY_CHARACTERS)
    assert protected is not None
    assert protected.lines == (f"Open{A} and ({B})",)
    assert not protected.needs_links


@pytest.mark.parametrize(
    ("line", "copies"),
    [
        ("Open {a} and {b}", A),
        ("Open <b>{a}</b>", COPY_CHARACTERS),
        ("Open {a}, {b} and {c}", COPY_CHARACTERS),
    ],
)
def test_spans_that_are_many_or_tags_are_put_back_by_links(line: str, copies: str) -> None:
    protected = protect_line(line, False, copies)
    assert protected is not None
    assert protected.needs_links
    assert not set("".join(protected.lines)) & set(COPY_CHARACTERS)
    assert not protected.copied.spans


def test_the_characters_themselves_are_spans() -> None:
    line = f"Open {B} now"
    assert copied_spans(line) == [(5, 6)]
    protected = protect_line(line, False, COPY_CHARACTERS)
    assert protected is not None
    assert protected.copied.restore(f"Jetzt{A} öffnen") == f"Jetzt {B} öffnen"


@pytest.mark.parametrize(
    ("line", "translation", "words", "translated"),
    [
        ("Open {a} now", f"Jetzt{A} öffnen", [[0, 1], [2]], [[0, 1], [2]]),
        ("Open ({ $a })", f"Öffne ({A})", [[0], [1, 2, 3]], [[0], [1, 2, 3]]),
        ("{a} {b} go", f"{B}{A} los", [[0, 1], [2]], [[0, 1], [2]]),
        ("Open {a}", f"{A}을 열기", [[0, 1]], [[0], [1]]),
    ],
)
def test_words_with_copy_characters_are_several_in_the_end(
    line: str, translation: str, words: list[list[int]], translated: list[list[int]]
) -> None:
    protected = protect_line(line, False, COPY_CHARACTERS)
    assert protected is not None
    assert [[*each] for each in protected.copied.restored_words(protected.lines[0])] == words
    assert [[*each] for each in protected.copied.restored_words(translation)] == translated


def test_texts_without_copy_characters_stay() -> None:
    assert Copies().restore("a {b} c") == "a {b} c"
    assert with_copies("a b", []) == "a b"
    assert with_copies("a bc d", [((5, 6), B), ((2, 3), A)]) == f"a{A}c{B}"
