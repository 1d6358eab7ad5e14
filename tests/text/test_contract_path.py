"""A line whose code a translation would break is left as it was, and marked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from string import Formatter

import pytest
from contracts.string_cases import lines as string_lines

from regard.data.copy_tokens import COPY_CHARACTERS
from regard.text.aligned_line import AlignedLine
from regard.text.casing import CaseReader
from regard.text.contracts import code_spans, protect_code
from regard.text.text_path import PathRules, Request, lines_path, run_path
from regard.text.translation import TranslatedPart, Translation


def translated(line: str, change: Callable[[str], str]) -> tuple[Translation, int]:
    """Translate a line by changing each text, and count the tries."""
    tries = 0

    def decode(request: Request) -> list[Translation]:
        nonlocal tries
        tries += 1
        texts = [change(text) for text in request.lines]
        parts = [
            TranslatedPart(*pair, 0.0)
            for pair in zip(request.lines, texts, strict=True)
        ]
        return [Translation(part.text, (), 0.0, parts=(part,)) for part in parts]

    reader = CaseReader(("", ""), lambda text: [*map(ord, text)])
    rules = PathRules(reader, dialect="auto")
    (result,) = run_path(lines_path([line], rules, [True]), decode)
    return result, tries


@pytest.mark.parametrize(
    "line",
    [
        "Delete %1$s and {name} now",
        "A [b]red[/b] dog",
        "Go <0>home</0> now",
        "{{#if x}}A dog{{/if}} is here",
        "$1,299.99 for 25 km",
    ],
)
def test_code_that_no_try_keeps_is_left_as_it_was(line: str) -> None:
    result, tries = translated(line, lambda _: "Xy")
    same, one = translated(line, str)
    assert (same.text, same.broken, one) == (line, False, 1)
    if result.broken:
        assert result.text == line
        assert tries > 1
    else:
        assert [line[c.start : c.end] for c in code_spans(line)] == [
            result.text[c.start : c.end] for c in code_spans(result.text)
        ]


def test_what_a_try_invents_is_never_given() -> None:
    result, _ = translated("Open {file} now", lambda text: f"{text} {{path}} %s")
    assert (result.text, result.broken) == ("Open {file} now", True)
    assert "does not occur in the source" in result.notes[-1]
    fields = [name for _, name, _, _ in Formatter().parse(result.text) if name]
    assert fields == ["file"]


def test_code_is_not_invented_in_a_line_without_code() -> None:
    result, tries = translated("Open it now", lambda text: f"{text} {{path}}")
    assert (result.text, result.broken, tries) == ("Open it now", True, 1)


def test_in_a_line_without_code_numbers_and_signs_are_words() -> None:
    for text in ("There are 5 dogs", "That is half: 50 %", "It costs 7 €"):
        result, tries = translated("A line of words", lambda _, text=text: text)
        assert (result.text, result.broken, tries) == (text, False, 1)


def test_where_a_number_is_lost_the_translation_stands_marked() -> None:
    result, _ = translated(
        "There are 42 dogs", lambda text: text.replace("42", "4").replace("dogs", "Hd")
    )
    assert result.text.endswith("Hd")
    assert result.broken == ("42" not in result.text)


def test_only_the_sentence_that_breaks_is_left() -> None:
    copy = COPY_CHARACTERS[0]

    def decode(request: Request) -> list[Translation] | None:
        if request.is_retry:
            return None  # there is no time
        parts = (
            TranslatedPart("A dog.", "Ein Hund.", 0.0),
            TranslatedPart(f"Open{copy}.", f"Öffne{copy} {{y}}.", 0.0),
        )
        text = " ".join(part.text for part in parts)
        return [Translation(text, (), 0.0, parts=parts)]

    reader = CaseReader(("", ""), lambda text: [*map(ord, text)])
    rules = PathRules(reader, COPY_CHARACTERS, dialect="auto")
    (result,) = run_path(lines_path(["A dog. Open {x}."], rules, [True]), decode)
    assert (result.text, result.broken) == ("Ein Hund. Open {x}.", True)
    assert [part.text for part in result.parts] == ["Ein Hund.", "Open {x}."]


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("Pay $1,299.99 or 20 € for 25 km", ["$1,299.99", "20", "€", "25 km"]),
        ("{{x}} a @ https://a.b/c", ["{{x}}", "https://a.b/c"]),
        ("H₂O at 20 °C", ["H₂O", "20 °C"]),
        ("plain words", []),
    ],
)
def test_code_is_what_contracts_and_spans_know(line: str, codes: list[str]) -> None:
    spans = [line[code.start : code.end] for code in code_spans(line)]
    assert not Counter(codes) - Counter(spans)
    assert bool(spans) == bool(codes)


@pytest.mark.parametrize(
    "line", ["A [b]red[/b] dog %s", "<1>a</1> {x} **b** $5", "{{#a}}x{{/a}} y"]
)
def test_protected_code_comes_back(line: str) -> None:
    protected = protect_code(line)
    assert protected is not None
    lines = []
    for text in protected.lines:
        words = range(len(text.split()))
        lines.append(AlignedLine(text, tuple((word, word) for word in words)))
    assert protected.render(lines).replace(" ", "") == line.replace(" ", "")


def reversed_words(text: str, _draw: random.Random) -> str:
    return " ".join(reversed(text.split()))


def dropped_words(text: str, draw: random.Random) -> str:
    return " ".join(word for word in text.split() if draw.random() < 0.7)


def doubled_words(text: str, draw: random.Random) -> str:
    return " ".join(word for word in text.split() for _ in range(draw.choice((1, 2))))


def with_code(text: str, draw: random.Random) -> str:
    codes = ("%s", "{x}", "7", "</b>", "\\", "}}")
    return f"{text} {draw.choice(codes)}"


@pytest.mark.parametrize("first", [0, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("has_links", [True, False])
@pytest.mark.parametrize(
    "change", [reversed_words, dropped_words, doubled_words, with_code]
)
def test_no_string_breaks_without_a_mark(
    change: Callable[[str, random.Random], str], has_links: bool, first: int
) -> None:
    draw = random.Random(1)

    def decode(request: Request) -> list[Translation]:
        results = []
        for line in request.lines:
            text = change(line, draw)
            links = [(0, word) for word in range(len(text.split()))] * has_links
            part = TranslatedPart(line, text, 0.0)
            results.append(
                Translation(text, (), 0.0, alignments=tuple(links), parts=(part,))
            )
        return results

    reader = CaseReader(("", ""), lambda text: [*map(ord, text)])
    rules = PathRules(reader, COPY_CHARACTERS)
    strings = string_lines()[first::6]
    texts = [string["text"] for string in strings]
    results = run_path(lines_path(texts, rules, [True] * len(texts)), decode)
    for string, result in zip(strings, results, strict=True):
        for span in string["spans"]:
            # A small number may be a word in the other language.
            counts = [text.count(span) for text in (string["text"], result.text)]
            is_kept = span[0] == "~" or len(set(counts)) == 1
            assert is_kept or result.broken, (string, result.text)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("가격: 12,000원", "12,000"),
        ("100% of the dogs", "100%"),
        ("© 2026 The Park Journal", "© 2026."),
        ("Open {name} now", "{name}."),
    ],
)
def test_a_text_of_which_only_code_is_left_stays_marked(line: str, answer: str) -> None:
    result, tries = translated(line, lambda text: answer if text == line else "… 7")
    assert (result.text, result.broken) == (line, True)
    assert tries > 1
    assert "mend it by hand" in result.notes[-1]


@pytest.mark.parametrize(
    ("line", "answer"),
    [("3번", "3"), ("SKU-1234", "SKU-1234"), ("{a}: 5 km", "{a}: 5 km")],
)
def test_code_alone_needs_no_word(line: str, answer: str) -> None:
    result, _ = translated(line, lambda _: answer)
    assert (result.text, result.broken) == (answer, False)
