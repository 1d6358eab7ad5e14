"""YAML files of strings: keys, anchors, tags, comments and styles stay to the byte."""

from __future__ import annotations

import sys

import pytest
import yaml
from helpers.document_checks import differences, hostile_outputs, translate_lines

from regard.common.errors import DataError, MissingExtra
from regard.data.languages import Languages
from regard.documents import Document, DocumentOptions
from regard.documents.formats import read_document
from regard.text.translation import Translation

OPTIONS = DocumentOptions(languages=Languages(source="en", target="de"))
RAILS = """\
# Texts of the dog house
en:
  title: Two dogs play   # the title
  dogs:
    zero: No dogs
    one: One dog
    other: "%{count} dogs"
  welcome_html: 'It isn''t <b>here</b>, %{name}'
  url: https://example.org/dogs
  date: {formats: {default: "%d. %B %Y"}, order: [year_a, month_b]}
  long: A dog plays with a cat
    in the snow near the house
    and a man sees it.

    Then it sleeps.
  quoted: "Two dogs play in \\
    the snow \\"here\\"\\n and\\tthere
    again"
  single: 'One dog

    two cats'
  yes: true
  "number": 12
  off: no
  nothing:
  empty: ""
  tilde: ~
"""
STYLES = """\
%YAML 1.1
---
base: &base
  literal: |
    One dog plays.
      Two cats sleep.

    Three men
  folded: >
    A dog plays with
    a cat.

    A man sleeps
    here.
  stripped: |-
    A dog
  kept: >+
    A cat
    sleeps

# comment
  indented: |2
      A dog
    a cat
  commented: | # why
    A woman
copy:
  <<: *base
  again: &x A dog   # comment
  alias: *x
  tagged: !!str A cat sleeps
  own: !Ref A cat sleeps
  both: &y !!str
    "A cat sleeps"
  list:
    - A dog
    - - A cat
      - key: A woman
    -   flow: [A man, 'a dog', "a cat", {k: A boy plays}]
? complex
: A girl
---
Only a text
...
"""
FILES = {
    "rails.yml": RAILS,
    "styles.yaml": STYLES.replace("---\nOnly a text\n...\n", ""),
    "windows.yml": RAILS.replace("\n", "\r\n"),
    "windows.yaml": STYLES.replace("---\nOnly a text\n...\n", "").replace("\n", "\r\n"),
    "flow.yaml": '{"a": "Two dogs: here", b: [A cat, A "man" here], c: \'x y\'}',
    "text.yaml": "A dog\n",
    "list.yaml": "- A dog\n- A cat\n",
    "empty.yaml": "",
    "emoji.yaml": "a: 😀 A dog\nb: A 😀 cat\n",
    "no end.yaml": "a: |\n  A dog\n  a cat",
}


class Loader(yaml.SafeLoader):
    """Reads tags of applications as texts."""


Loader.add_multi_constructor("!", lambda loader, _, node: loader.construct_scalar(node))


def load(data: bytes | str) -> object:
    return yaml.load(data, Loader)


def read(text: str, options: DocumentOptions = OPTIONS) -> Document:
    return read_document(text.encode(), "a.yml", options=options)


def comments_and_keys(text: str) -> list[tuple[str, str]]:
    """All tokens of a file but its texts, by the reader in Python."""
    kinds = (yaml.AnchorToken, yaml.AliasToken, yaml.TagToken)
    return [
        (
            type(token).__name__,
            str(getattr(token, "value", "")) if isinstance(token, kinds) else "",
        )
        for token in yaml.scan(text, yaml.SafeLoader)
    ]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_all_but_texts_stays(name: str, mark: bytes) -> None:
    source = FILES[name]
    changed = set[str]()
    for data in hostile_outputs(mark + source.encode(), name):
        output = data.removeprefix(mark).decode()
        changed |= differences(load(source), load(output))
        assert comments_and_keys(output) == comments_and_keys(source)
        assert output.count("#") >= source.count("#")
        assert output.count("\r\n") == output.count("\n") * ("\r" in source)
    names = {text.name for text in read(source).texts}
    changed = {path.replace("key en.", "key ") for path in changed}
    if name not in ("styles.yaml", "windows.yaml"):  # aliases are read twice
        assert changed <= names
        assert len(changed) >= len(names) - 1


def test_texts_and_what_stays() -> None:
    document = read(RAILS)
    assert {text.name: text.text for text in document.texts} == {
        "key title": "Two dogs play",
        "key dogs.zero": "No dogs",
        "key dogs.one": "One dog",
        "key dogs.other": "%{count} dogs",
        "key welcome_html": "It isn't <b>here</b>, %{name}",
        "key long": "A dog plays with a cat in the snow near the house and a man sees it.\n"
        "Then it sleeps.",
        "key quoted": 'Two dogs play in the snow "here"\n and\tthere again',
        "key single": "One dog\ntwo cats",
    }
    assert {text.dialect for text in document.texts} == {"ruby"}
    assert document.notes == (
        "4 values stay as they are, such as key url: identifiers, addresses, colours, names and the "
        "like",
    )


def test_the_root_of_rails_is_the_target() -> None:
    output = translate_lines(read(RAILS)).decode()
    assert output == RAILS.replace("\nen:", "\nde:")
    assert translate_lines(read('"en":\n  a: A dog\n')).decode().startswith('"de":\n')
    assert translate_lines(read("fr:\n  a: A dog\n")).decode().startswith("fr:\n")
    assert (
        translate_lines(read("en: A dog\nde: A cat\n")).decode()
        == "en: A dog\nde: A cat\n"
    )


def test_plural_forms_that_are_missing_are_reported() -> None:
    options = DocumentOptions(languages=Languages(source="en", target="ru"))
    assert read(RAILS, options).notes[0] == (
        "1 plural has no form few or many, which Russian needs, such as key dogs: add them by "
        "hand"
    )


@pytest.mark.parametrize(
    ("source", "prefix", "output"),
    [
        ("a: A dog # x", "", "a: A dog # x"),
        ("a: A dog # x", "no: ", 'a: "no: A dog" # x'),
        ("a: A dog", "x #", 'a: "x #A dog"'),
        ("a: A dog", "[", 'a: "[A dog"'),
        ("a: A dog", "\x85", 'a: "\\u0085A dog"'),
        ("a: 'A dog'", "it's ", "a: 'it''s A dog'"),
        ("a: 'A dog'", "\x01", 'a: "\\u0001A dog"'),
        ('a: "A \\"dog\\""', "\\", 'a: "\\\\A \\"dog\\""'),
        ("a: [A dog]", "x, ", 'a: ["x, A dog"]'),
        ("a: A dog", "x, ", "a: x, A dog"),
        ("a: |\n  A dog\n  A cat\n", "x # ", "a: |\n  x # A dog\n  x # A cat\n"),
        ("a: |\n  A dog\nb: 1\n", " ", 'a: " A dog\\n"\nb: 1\n'),
        (
            "a: >\n  A small dog\n  plays\n",
            "very ",
            "a: >\n  very A\n  small dog\n  plays\n",
        ),
        ("a: A small dog\n  plays\n", "very ", "a: very A\n  small dog\n  plays\n"),
        ("a: A small dog\n  plays\n", "k: ", 'a: "k: A small dog plays"\n'),
    ],
)
def test_styles_are_kept_if_they_hold_the_text(
    source: str, prefix: str, output: str
) -> None:
    assert translate_lines(read(source), prefix).decode() == output


def test_a_text_does_not_become_a_number() -> None:
    document = read("a: A dog\n")
    (translation,) = document.texts
    assert translation.text == "A dog"
    for word in ("no", "12", "null", "2026-01-01", "~", "- a", "&a", "'", "%"):
        output = translate_lines(document, f"{word}\n"[:-1]).decode()
        assert yaml.safe_load(output) == {"a": f"{word}A dog"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "a: b\nb: c: d\n",
            "line 2, column 5: no YAML: mapping values are not allowed",
        ),
        ("a: [b", "line 1, column 6: no YAML: "),
        ("a: b\n\tc: d\n", "line 2, column 1: no YAML: "),
        ("a: \x01", "line 1, column 4: no YAML: "),
        ("- " * 600 + "a", "line 1, column 1001: more than 500 levels"),
        ("[" * 100_000, "line 1, column 501: more than 500 levels"),
    ],
)
def test_bad_files_are_refused_with_their_place(text: str, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        read(text)
    assert str(caught.value).startswith(f"a.yml, {problem}")


def test_keys_stay() -> None:
    document = read("? [a key, {of: many parts}]\n: A dog\n? a long key\n: A cat\n")
    assert [text.text for text in document.texts] == ["A dog", "A cat"]


@pytest.mark.parametrize(
    ("name", "library", "module"),
    [("a.yml", "yaml", "yaml_file"), ("a.ftl", "fluent.syntax", "fluent_file")],
)
def test_a_library_that_is_missing_is_named(
    name: str, library: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"regard.documents.{module}", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[documents\]'"):
        read_document(b"", name)


def test_aliases_are_not_expanded() -> None:
    lines = ["a0: &a0 A dog"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 40)]
    assert len(read("\n".join(lines)).texts) == 1


def test_what_rails_reads_stays() -> None:
    source = (
        "en:\n  date:\n    order: [year, month, day]\n  list:\n  - :year\n  - year\n"
        '  array: {last_word_connector: ", and ", words_connector: ", "}\n'
    )
    document = read_document(source.encode(), "en.yml", options=OPTIONS)
    assert document.lines == ("year", "and")
    written = document.render(
        [Translation("Jahr", (), 0.0), Translation("und", (), 0.0)]
    )
    assert written.decode() == (
        source.replace("en:", "de:")
        .replace("- year", "- Jahr")
        .replace(", and ", ", und ")
    )
