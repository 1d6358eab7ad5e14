"""Sentences: where texts are split, and that everything else is kept."""

from __future__ import annotations

import random

import pytest
from helpers.text_table import items, rows
from helpers.time_limits import time_limit

from regard.common.errors import UsageError
from regard.data.sentences import split_text

WORDS = "Mr. Hello world 3.14 e.g. z.B. a I 나는 갔다. 다. 你好 。 ！ 「 」 ありがとう"
MARKS = items(". ! ? … ” “ ) ( - é")
SPACES = [" ", " ", " ", "  ", "\n", "\r\n", "\n\n", "\t", "\u2028", "\u00a0", "\0"]
ALPHABET = [*WORDS.split(), *MARKS, '"', *SPACES]
LONG = 100_000
"""Characters that quadratic time turns into minutes."""
TEXTS = [
    "".join(random.Random(seed).choices(ALPHABET, k=seed % 40)) for seed in range(3000)
]


def lines(text: str, **options: bool) -> tuple[str, ...]:
    return split_text(text, **options).lines


@pytest.mark.parametrize(
    "sentences",
    rows("""
        Mr. Smith met Dr. No. | They spoke, e.g. about St. Peter.
        It costs 3.14 francs. | See No. 5 and www.example.com. | Write to a.b@c.de. | Thanks!
        J. R. R. Tolkien and J.S. Bach. | Nobody else.
        "Go!" he said. | "Yes." | They went.
        He left (at last.) | Then it rained.
        z. B. Hunde, d. h. Tiere am 3. Mai 2020. | Und Nr. 7.
        What... is it? | Well… it is that. | Really?! | Yes.
        1. First of all. | It was in 1999. | Nothing since.
        Это т. е. так. | Нет!
        Was it U.S. property in 2024. 3. 1. or not? | No.
        나는 갔다. | 그는 왔어요! | 정말? | 응.
        यह है। | वह है।
    """),
)
def test_sentences_with_spaces(sentences: list[str]) -> None:
    assert lines(" ".join(sentences)) == tuple(sentences)


@pytest.mark.parametrize(
    "sentences",
    rows("""
        你好。 | “他说。” | 我走了！ | 真的吗？
        「行く。」と言った。 | 本当？ | はい。
        すごい! | 本当? | はい。
        갔다. | 그리고 왔어요. | 끝.
    """),
)
def test_sentences_without_spaces(sentences: list[str]) -> None:
    assert lines("".join(sentences)) == tuple(sentences)


def test_everything_else_is_kept() -> None:
    for text in TEXTS:
        for sentences in (True, False):
            layout = split_text(text, sentences=sentences)
            assert layout.join(layout.lines) == text
            assert all(line == line.strip() and line for line in layout.lines)
            assert not any(len(line.splitlines()) > 1 for line in layout.lines)


def test_line_breaks_that_end_no_sentence_become_spaces() -> None:
    for text in TEXTS:
        layout = split_text(text, newlines=False)
        assert "".join(layout.join(layout.lines).split()) == "".join(text.split())
    parts = lines("One\ntwo. Three\n\nFour", newlines=False)
    assert parts == ("One two.", "Three", "Four")
    assert lines("Ab. Cd.\nE", sentences=False) == ("Ab. Cd.", "E")
    layout = split_text("  Ab.\t C d!\r\n\n * E\n")
    assert layout.join(["1", "2", "3"]) == "  1\t 2\r\n\n 3\n"


def test_sentences_that_touched_are_parted_if_the_language_has_spaces() -> None:
    layout = split_text("你好。我走了。")
    assert layout.join(["Hello.", "I left."]) == "Hello. I left."
    assert layout.join(["안녕.", "나는 갔다."]) == "안녕. 나는 갔다."
    assert layout.join(["こんにちは。", "行った。"]) == "こんにちは。行った。"
    assert layout.join(["", "I left."]) == "I left."


def test_a_wrong_number_of_translations_is_refused() -> None:
    message = "the text has 2 lines to translate, but 1 translation came back"
    with pytest.raises(UsageError, match=message):
        split_text("Ab. Cd.").join(["x"])


REPEATED = [
    "(",
    ".",
    "A. ",
    "。」",
    "\n",
    " ",
    "ab",
    "Ab is so. ",
    '." ',
    "다.가",
    "\r \n",
    "?!",
    ". ((((((",
    "「」",
    "\u2028 a",
]
"""Units of long texts: one of each kind of end, and of what may follow it."""
SIMILAR = [
    ". ",
    "a. ",
    "。",
    "? a",
    "A! ",
    "a.\n",
    '.("',
    ".“",
    "12. Mai ",
    "…",
    "!? 。",
    "a\n\n",
    "한.",
]
"""Units that take the ways of those above through the splitter."""


@pytest.mark.parametrize(
    "unit",
    [*REPEATED, *(pytest.param(unit, marks=pytest.mark.slow) for unit in SIMILAR)],
)
def test_any_text_takes_linear_time(unit: str) -> None:
    """About a second on an idle core; quadratic time would be many minutes.

    If line breaks are none of sentences, only texts that have some are split in another way.
    """
    text = unit * (LONG // len(unit))
    with time_limit():
        layout = split_text(text)
        assert layout.join(layout.lines) == text
        if any(mark in unit for mark in "\n\r\u2028"):
            split_text(text, newlines=False)
