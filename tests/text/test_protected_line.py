"""Plain lines with spans that are not language: each comes back once, unchanged, whatever the
translation is.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.copy_tokens import COPY_CHARACTERS
from regard.text.aligned_line import AlignedLine
from regard.text.markup.document import parse_markup
from regard.text.protected_line import protect_line

SPANS = [
    "%s",
    "{name}",
    "{{a.b}}",
    "%1$S",
    "{ $name }",
    "[X8X]",
    "<b>",
    "</b>",
    "&amp;",
    "https://x.org/a?b=1&c",
    "👍🏽",
    "`a < b`",
]
WORDS = ["Open", "the", "file,", "and", "close", "(all)", "of", "it", "&", "go", "<", "on"]


def test_spans_are_taken_out_of_the_lines() -> None:
    protected = protect_line("Delete {0} files? Then call foo() & go.")
    assert protected is not None
    assert protected.lines == ("Delete files?", "Then call & go.")
    translated = [
        AlignedLine("Dateien löschen?", [(0, 1), (1, 0)]),
        AlignedLine("Dann & los.", [(0, 0), (3, 2)]),
    ]
    assert protected.render(translated) == "{0} Dateien löschen? Dann foo() & los."


def test_tags_go_with_their_words_as_in_markup() -> None:
    protected = protect_line('Open <b title="a &amp; b">{x} the file</b>, please & go')
    assert protected is not None
    assert protected.lines == ("Open the file, please & go",)
    links = [(0, 4), (1, 2), (2, 3), (3, 0), (4, 1), (5, 5)]
    rendered = protected.render([AlignedLine("Bitte & die Datei, öffnen los", links)])
    assert (
        rendered.count('<b title="a &amp; b">')
        == rendered.count("</b>")
        == rendered.count("{x}")
        == 1
    )
    assert "die Datei" in rendered[rendered.index("<b") : rendered.index("</b>")]
    assert (
        protect_line('<kept-span id="7"/> a').render([AlignedLine("b", [(0, 0)])])
        == '<kept-span id="7"/> b'
    )  # type: ignore[union-attr]


@pytest.mark.parametrize("quotes", ["''", "**", "//", "__", "--", '""', "()", "«»"])
def test_a_span_in_quotes_is_parted_from_the_words_around_it(quotes: str) -> None:
    """Also if the translation has lost the quotes."""
    protected = protect_line(f"I go {quotes[0]}{{x}}{quotes[1]} home")
    assert protected is not None
    rendered = protected.render([AlignedLine("Ich gehe heim", [(0, 0), (1, 1), (3, 2)])])
    assert "{x}" in rendered.translate(str.maketrans(quotes, "  ")).split()


@pytest.mark.parametrize(
    "line", ["Press F5 at 12:30, © 2024", "나는 빵을 먹고 있었다", "", "a < b & c"]
)
def test_a_line_without_such_spans_needs_no_protection(line: str) -> None:
    assert protect_line(line) is None


@pytest.mark.parametrize(
    "mark", ["<br>", "<br/>", "<br />", "<BR>", "<br\tclass='x'/>", "</p><p>", "<hr>", "<LI>"]
)
def test_breaks_part_a_line(mark: str) -> None:
    protected = protect_line(f"A man <b>runs</b>{mark} a dog sits")
    assert protected is not None
    assert protected.lines == ("A man runs", "a dog sits")
    upper = [AlignedLine(line.upper()) for line in protected.lines]
    assert protected.render(upper) == f"A MAN <b>RUNS</b>{mark} A DOG SITS"


def test_tags_with_the_names_of_placeholders_part_no_line() -> None:
    protected = protect_line("Click <link>here</link>, <button/> or <brand>Regard</brand>")
    assert protected is not None
    assert protected.lines == ("Click here, or Regard",)


def test_the_texts_of_a_message_are_lines_of_their_own() -> None:
    protected = protect_line("{n, plural, one {# file is here} other {# files are here}}")
    assert protected is not None
    assert protected.lines == ("# file is here", "# files are here")
    upper = [AlignedLine(line.upper()) for line in protected.lines]
    assert protected.render(upper) == "{n, plural, one {# FILE IS HERE} other {# FILES ARE HERE}}"


@pytest.mark.parametrize("seed", range(40))
def test_each_span_comes_back_once_whatever_is_translated(seed: int) -> None:
    rng = random.Random(seed)
    parts = [rng.choice(SPANS if rng.random() < 0.4 else WORDS) for _ in range(rng.randint(3, 12))]
    line = " ".join([*parts, rng.choice(SPANS)])
    protected = protect_line(line)
    assert protected is not None
    unchanged = [
        AlignedLine(text, [(i, i) for i in range(len(text.split()))]) for text in protected.lines
    ]
    assert protected.render(unchanged) == line
    translated = []
    for text in protected.lines:
        words = rng.choices(["eins", "<zwei>", "drei.", "&vier;", "fünf"], k=rng.randint(1, 9))
        links = [
            (rng.randrange(len(text.split())), rng.randrange(len(words)))
            for _ in range(rng.randint(0, 8))
        ]
        translated.append(AlignedLine(" ".join(words), rng.choice([None, links])))
    rendered = protected.render(translated)
    for span in {*protected.spans}:
        assert rendered.count(span) >= protected.spans.count(span)
    kept = [span for span in protected.spans if span not in "<zwei> &vier;"]
    assert len(rendered) >= sum(map(len, kept))


PIECES = [
    *SPANS,
    *WORDS,
    "(",
    "[",
    "„",
    "«",
    "“",
    "”",
    '"',
    "'",
    "¿",
    "/",
    "-",
    ":",
    ".",
    "…",
    "go.",
    "나는",
    "빵을",
    "你好。",
]
GAPS = ["", " ", " ", "  ", "\t", "\u00a0"]
TEXTS = st.lists(
    st.tuples(st.sampled_from(PIECES), st.sampled_from(GAPS)), min_size=1, max_size=8
).map(lambda parts: "".join(piece + gap for piece, gap in parts))


@given(TEXTS, st.booleans(), st.sampled_from(["", COPY_CHARACTERS]))
@settings(derandomize=True, database=None, deadline=None, max_examples=600)
def test_a_line_taken_apart_and_put_together_is_the_same(
    text: str, sentences: bool, copies: str
) -> None:
    protected = protect_line(text, sentences, copies)
    if protected is not None:
        assert protected.render([AlignedLine(line) for line in protected.lines]) == text
    document = parse_markup(f"<p>{text}</p>", "html")
    assert document.render([AlignedLine(line) for line in document.lines]) == f"<p>{text}</p>"


@pytest.mark.parametrize(
    ("line", "translation", "result"),
    [
        ("Open ( {a} )", "ÖFFNE ({}", "ÖFFNE ( {a}"),
        ("Say „ {a}“", "SAG „{}“", "SAG „ {a}“"),
        ("a  {a}", "b {}", "b  {a}"),
        ("Open ({a})", "ÖFFNE ({}", "ÖFFNE ({a}"),
        ("Open {a}", "({}", "({a}"),
    ],
)
def test_a_space_behind_an_opening_mark_comes_back_if_it_was_there(
    line: str, translation: str, result: str
) -> None:
    protected = protect_line(line, False, COPY_CHARACTERS)
    assert protected is not None
    assert protected.copied.restore(translation.replace("{}", COPY_CHARACTERS[0])) == result
