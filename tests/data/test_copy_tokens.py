"""Spans that copy tokens stood for come back parted from their neighbours as in their line."""

from __future__ import annotations

import pytest
from helpers.text_table import rows

from regard.data.copy_tokens import COPY_CHARACTERS, Copies, copied_spans, with_copies
from regard.text.protected_line import ProtectedLine, protect_line

A, B = COPY_CHARACTERS[:2]


def protect(line: str, copies: str = COPY_CHARACTERS) -> ProtectedLine:
    protected = protect_line(line, copies)
    assert protected is not None
    return protected


def translated(text: str) -> str:
    """Return a text with the copy characters that A and B stand for."""
    return text.replace("A", A).replace("B", B)


@pytest.mark.parametrize(
    ("line", "translation", "restored"),
    rows("""
        Open {a}      | ÖffneA         | Öffne {a}
        Open {a} now  | A              | {a}
        Open {a} now  | JetztAöffnen   | Jetzt {a} öffnen
        Open {a}      | A을 열기       | {a}을 열기
        Open {a}      | 打开A          | 打开{a}
        Open {a} now  | A。            | {a}。
        Open ({a})    | Öffne (A)      | Öffne ({a})
        Open “{a}”    | ÖffneA         | Öffne {a}
        Open {a}      | Öffne (A)      | Öffne ({a})
        Open pre{a}   | Öffne preA     | Öffne pre{a}
        {a}s          | Ae             | {a}e
        {a}{b}        | AB             | {a}{b}
        {a} {b}       | AB             | {a} {b}
        {a} {b}       | BA             | {b} {a}
        {a}{b}        | BA             | {b}{a}
        a: {a}        | a:A.           | a: {a}.
        a:{a}         | a:A            | a:{a}
        See {a} now   | <b>Jetzt</b>A  | <b>Jetzt</b> {a}
        Open ( {a} )  | ÖFFNE (A       | ÖFFNE ( {a}
        Say „ {a}“    | sag „A“        | sag „ {a}“
        a  {a}        | b A            | b  {a}
        Open ({a})    | ÖFFNE (A       | ÖFFNE ({a}
        Open {a}      | (A             | ({a}
    """),
)
def test_spans_stand_apart_as_in_their_line(
    line: str, translation: str, restored: str
) -> None:
    assert protect(line).copied.restore(translated(translation)) == restored


def test_the_model_reads_no_space_before_a_copy_character() -> None:
    protected = protect("Open {a} and ({b})")
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
def test_spans_that_are_many_or_tags_are_put_back_by_links(
    line: str, copies: str
) -> None:
    protected = protect(line, copies)
    assert protected.needs_links
    assert not set("".join(protected.lines)) & set(COPY_CHARACTERS)
    assert not protected.copied.spans


def test_the_characters_themselves_are_spans() -> None:
    line = f"Open {B} now"
    assert copied_spans(line) == [(5, 6)]
    assert protect(line).copied.restore(f"Jetzt{A} öffnen") == f"Jetzt {B} öffnen"


@pytest.mark.parametrize(
    ("line", "translation", "words", "translated_words"),
    rows("""
        Open {a} now  | JetztA öffnen | 0 1, 2    | 0 1, 2
        Open ({ $a }) | Öffne (A)     | 0, 1 2 3  | 0, 1 2 3
        {a} {b} go    | BA los        | 0 1, 2    | 0 1, 2
        Open {a}      | A을 열기      | 0 1       | 0, 1
    """),
)
def test_words_with_copy_characters_are_several_in_the_end(
    line: str, translation: str, words: str, translated_words: str
) -> None:
    protected = protect(line)
    for text, expected in (
        (protected.lines[0], words),
        (translated(translation), translated_words),
    ):
        restored = protected.copied.restored_words(text)
        assert ", ".join(" ".join(map(str, each)) for each in restored) == expected


def test_texts_without_copy_characters_stay() -> None:
    assert Copies().restore("a {b} c") == "a {b} c"
    assert with_copies("a b", []) == "a b"
    assert with_copies("a bc d", [((5, 6), B), ((2, 3), A)]) == f"a{A}c{B}"
