"""Message files of Fluent: what is no text stays to the byte."""

from __future__ import annotations

import re

import pytest
from fluent.syntax import FluentParser, ast
from fluent.syntax.visitor import Transformer
from helpers.document_checks import hostile_outputs, translate_lines

from regard.common.errors import DataError
from regard.data.languages import Languages
from regard.documents import Document, DocumentOptions
from regard.documents.formats import read_document

FILE = """\
### The dog house
## Group

# Shown to { $user }
hello = Hello { $user }, two dogs play
    .title = A tip about { -brand-name }
    .accesskey = H
    .style = width: 24em; height: 3em
-brand-name = Dog House
-season = A warm summer
    .gender = neuter
dogs =
    You have { $count ->
        [0] no dogs
        [one] one dog
       *[other] { $count } dogs
    } in { $place }.
long = A dog plays with a cat
    in the snow near the house { $place }
    and a man sees it.

    Then it sleeps { "  " }.
block =
    A woman sleeps
    here.
nested = { $a ->
   *[x] One { $b ->
        [one] small dog
       *[other] { NUMBER($b, minimumFractionDigits: 2) } small dogs
    } plays
  }
call = It is { DATETIME($date, month: "long") } and { message.attr } or { block } now
only = { $user }
url = https://example.org/dogs
empty = { "" }
-- = x
"""
FILE = FILE.replace("-- = x\n", "")
FILES = {
    "a.ftl": FILE,
    "windows.ftl": FILE.replace("\n", "\r\n"),
    "no end.ftl": "a = A dog",
    "empty.ftl": "",
    "comments.ftl": "# Only\n\n### this\n",
    "literal.ftl": 'a = { "{" }A dog{ "}" } plays\nb = {"[x]"} A cat\n',
    "spaces.ftl": "a   =   A dog   \nb = A cat\n  \n",
}


class Emptied(Transformer):
    """Replaces the texts of patterns, and sorts their placeables."""

    def visit_Pattern(self, node: ast.Pattern) -> ast.Pattern:  # noqa: N802
        self.generic_visit(node)
        elements = [
            part for part in node.elements if not isinstance(part, ast.TextElement)
        ]
        node.elements = sorted(elements, key=lambda part: str(part.to_json()))
        return node


def skeleton(text: str) -> object:
    resource = FluentParser(with_spans=False).parse(text)
    assert not any(isinstance(entry, ast.Junk) for entry in resource.body)
    return Emptied().visit(resource).to_json()


def texts_of(text: str) -> list[bool]:
    """Of each pattern, in order, whether it has text."""
    patterns: list[bool] = []

    class Reader(Transformer):
        def visit_Pattern(self, node: ast.Pattern) -> ast.Pattern:  # noqa: N802
            text = "".join(
                str(part.value)
                for part in node.elements
                if isinstance(part, ast.TextElement)
            )
            patterns.append(bool(text.strip()) or bool(node.elements))
            return self.generic_visit(node)

    Reader().visit(FluentParser(with_spans=False).parse(text))
    return patterns


def read(text: str, target: str = "de") -> Document:
    options = DocumentOptions(languages=Languages(source="en", target=target))
    return read_document(text.encode(), "a.ftl", options=options)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_all_but_texts_stays(name: str, mark: bytes) -> None:
    source = FILES[name]
    for data in hostile_outputs(mark + source.encode(), name):
        assert data.startswith(mark)
        output = data.removeprefix(mark).decode()
        assert skeleton(output) == skeleton(source)
        assert texts_of(output) == texts_of(source)
        comments = re.compile(
            r"^#.*$|^-?[a-z-]+ *= *|^ +\.\w+ = |\*?\[\w+\]", re.MULTILINE
        )
        assert comments.findall(output) == comments.findall(source)
        assert output.count("\r\n") == output.count("\n") * ("\r" in source)
        for kept in (
            "https://example.org/dogs",
            ".accesskey = H",
            "24em",
            "= Dog House",
        ):
            assert output.count(kept) == source.count(kept)


def test_texts_are_the_patterns_that_selectors_divide() -> None:
    document = read(FILE)
    assert {text.name: text.text for text in document.texts} == {
        "key hello": "Hello { $user }, two dogs play",
        "key hello.title": "A tip about { -brand-name }",
        "key -season": "A warm summer",
        "key dogs": " in { $place }.",
        "key dogs [0]": "no dogs",
        "key dogs [one]": "one dog",
        "key dogs [other]": "{ $count } dogs",
        "key long": "A dog plays with a cat in the snow near the house { $place } and a man sees it."
        '\nThen it sleeps { "  " }.',
        "key block": "A woman sleeps here.",
        "key nested [x]": " plays",
        "key nested [x] [one]": "small dog",
        "key nested [x] [other]": "{ NUMBER($b, minimumFractionDigits: 2) } small dogs",
        "key call": 'It is { DATETIME($date, month: "long") } and { message.attr } or { block } now',
    }
    names = [text.name for text in document.texts]
    assert names.count("key dogs") == 2
    assert document.texts[0].comment == "Shown to { $user }"
    assert {text.dialect for text in document.texts} == {"fluent"}
    assert "Dog House" not in [text.text for text in document.texts]


def test_lines_are_wrapped_as_they_were() -> None:
    output = translate_lines(read(FILE), "Very often ").decode()
    assert "block =\n    Very often A\n    woman sleeps\n    here.\n" in output
    assert (
        "long = Very often A dog plays with a cat in\n    the snow near the house { $place }\n"
        '    and a man sees it.\n\n    Very often Then it sleeps { "  " }.\n'
    ) in output


@pytest.mark.parametrize(
    "prefix", ["}", "{", "{ $other } ", "{ $x -> ", "\n[x] ", ".a = "]
)
def test_what_would_be_code_leaves_a_text_as_it_was(prefix: str) -> None:
    source = "a =\n    A dog plays\n    here\n"
    assert translate_lines(read(source), prefix).decode() == source


def test_plural_forms_that_are_missing_are_reported() -> None:
    assert read(FILE, "ru").notes[0] == (
        "2 plurals have no form few or many, which Russian needs, such as key dogs: add them by "
        "hand"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = A dog\nb\n", 'line 2, column 2: no Fluent: Expected token: "="'),
        ("a = { $x\nb = c\n", "line 2, column 1: no Fluent: "),
        ("a = { $x ->\n  [one] b\n}\n", "line 3, column 1: no Fluent: "),
        ("a = " + "{" * 100_000, "line 1, column 1: more than 500 levels"),
    ],
)
def test_bad_files_are_refused_with_their_place(text: str, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        read(text)
    assert str(caught.value).startswith(f"a.ftl, {problem}")
