"""Plain lines with spans that are not language: each comes back once, unchanged, whatever the
translation is.
"""

from __future__ import annotations

import pytest
from helpers.text_table import items
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.copy_tokens import COPY_CHARACTERS
from regard.text.aligned_line import AlignedLine
from regard.text.markup.document import parse_markup
from regard.text.protected_line import ProtectedLine, protect_line

SPANS = [
    *items("%s {name} {{a.b}} %1$S [X8X] <b> </b> &amp; https://x.org/a?b=1&c 👍🏽")
]
SPANS += ["{ $name }", "`a < b`"]
WORDS = items("Open the file, and close (all) of it & go < on")


def protect(line: str) -> ProtectedLine:
    protected = protect_line(line)
    assert protected is not None

    return protected


def in_capitals(protected: ProtectedLine) -> str:
    """Return the line if its parts are translated into capitals."""
    return protected.render([AlignedLine(line.upper()) for line in protected.lines])


def test_spans_are_taken_out_of_the_lines() -> None:
    protected = protect("Delete {0} files? Then call foo() & go.")
    assert protected.lines == ("Delete files? Then call & go.",)

    links = [(0, 1), (1, 0), (2, 2), (5, 4)]
    translated = [AlignedLine("Dateien löschen? Dann & los.", links)]
    assert protected.render(translated) == "{0} Dateien löschen? Dann foo() & los."


@pytest.mark.parametrize(
    "quotes",
    items("""
    '' ** // __ -- "" () «»
"""),
)
def test_a_span_in_quotes_is_parted_from_the_words_around_it(quotes: str) -> None:
    """Also if the translation has lost the quotes."""
    protected = protect(f"I go {quotes[0]}{{x}}{quotes[1]} home")
    rendered = protected.render(
        [AlignedLine("Ich gehe heim", [(0, 0), (1, 1), (3, 2)])]
    )

    assert "{x}" in rendered.translate(str.maketrans(quotes, "  ")).split()


@pytest.mark.parametrize(
    "line", ["Press F5 at 12:30, © 2024", "나는 빵을 먹고 있었다", "", "a < b & c"]
)
def test_a_line_without_such_spans_needs_no_protection(line: str) -> None:
    assert protect_line(line) is None


@pytest.mark.parametrize(
    "mark",
    ["<br>", "<br/>", "<br />", "<BR>", "<br\tclass='x'/>", "</p><p>", "<hr>", "<LI>"],
)
def test_breaks_part_a_line(mark: str) -> None:
    protected = protect(f"A man <b>runs</b>{mark} a dog sits")
    assert protected.lines == ("A man runs", "a dog sits")
    assert in_capitals(protected) == f"A MAN <b>RUNS</b>{mark} A DOG SITS"


def test_tags_with_the_names_of_placeholders_part_no_line() -> None:
    protected = protect("Click <link>here</link>, <button/> or <brand>Regard</brand>")
    assert protected.lines == ("Click here, or Regard",)


def test_the_texts_of_a_message_are_lines_of_their_own() -> None:
    protected = protect("{n, plural, one {# file is here} other {# files are here}}")
    assert protected.lines == ("# file is here", "# files are here")

    expected = "{n, plural, one {# FILE IS HERE} other {# FILES ARE HERE}}"
    assert in_capitals(protected) == expected


SIGNS = items("""
    ( [ „ « “ ” " ' ¿ / - : . … go. 나는 빵을 你好。
""")
PIECES = [*SPANS, *WORDS, *SIGNS]
GAPS = ["", " ", " ", "  ", "\t", "\u00a0"]
PARTS = st.tuples(st.sampled_from(PIECES), st.sampled_from(GAPS)).map("".join)
TEXTS = st.lists(PARTS, min_size=1, max_size=8).map("".join)


@pytest.mark.system
@given(TEXTS, st.sampled_from(["", COPY_CHARACTERS]))
@settings(derandomize=True, database=None, deadline=None, max_examples=300)
def test_a_line_taken_apart_and_put_together_is_the_same(
    text: str, copies: str
) -> None:
    protected = protect_line(text, copies)
    if protected is not None:
        assert protected.render([AlignedLine(line) for line in protected.lines]) == text

    document = parse_markup(f"<p>{text}</p>", "html")
    assert (
        document.render([AlignedLine(line) for line in document.lines])
        == f"<p>{text}</p>"
    )
