"""Translations that an output has already stay when it is written again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from fluent.syntax import parse as parse_fluent
from fluent.syntax import serialize
from helpers.small_models import folder

import regard
from regard import Translator
from regard.common.errors import DataError, RegardError
from regard.data.languages import Languages
from regard.documents import Document, DocumentOptions
from regard.documents.earlier_output import with_earlier_texts
from regard.documents.formats import read_document
from regard.text.translation import Translation

Read = Callable[[str], object]
LANGUAGES = Languages(source="en", target="de")


def android(*items: tuple[str, str]) -> str:
    lines = [f'    <string name="{name}">{text}</string>\n' for name, text in items]
    return f"<resources>\n{''.join(lines)}</resources>\n"


def resx(*items: tuple[str, str]) -> str:
    lines = [
        f'  <data name="{name}"><value>{text}</value></data>\n' for name, text in items
    ]
    return f"<root>\n{''.join(lines)}</root>\n"


FORMATS: dict[str, tuple[Callable[..., str], Read]] = {
    "strings.xml": (android, str),
    "a.resx": (resx, str),
    "a.json": (lambda *items: json.dumps(dict(items), indent=1), json.loads),
    "app.arb": (
        lambda *items: json.dumps({"@@locale": "de", **dict(items)}),
        json.loads,
    ),
    "a.yml": (
        lambda *items: yaml.safe_dump(dict(items), allow_unicode=True),
        yaml.safe_load,
    ),
    "a.properties": (
        lambda *items: "".join(f"{key} = {text}\n" for key, text in items),
        str,
    ),
    "Localizable.strings": (
        lambda *items: "".join(f'"{key}" = "{text}";\n' for key, text in items),
        str,
    ),
    "a.ftl": (
        lambda *items: "".join(f"{key} = {text}\n" for key, text in items),
        lambda text: serialize(parse_fluent(text)),
    ),
}
SOURCE = (("one", "A dog"), ("two", "A small cat"), ("three", "Two birds"))
EARLIER = (("one", "Der Hund"), ("two", "A small cat"), ("gone", "Weg"))


def read(text: str, name: str) -> Document:
    return read_document(text.encode(), name, options=DocumentOptions(LANGUAGES))


def written(
    tmp_path: Path, name: str, source: str, earlier: str
) -> tuple[str, Document]:
    """The document that an output becomes, whose new texts are x."""
    output = tmp_path / name
    output.write_text(earlier, encoding="utf-8")
    document = with_earlier_texts(read(source, name), output, "de")
    return replaced_lines(document, "x").decode(), document


def replaced_lines(document: Document, text: str) -> bytes:
    """Render a document whose lines all become one text."""
    return document.render([Translation(text, (), 0.0) for _ in document.lines])


@pytest.mark.parametrize("name", FORMATS)
def test_texts_stay_where_they_are_not_those_of_the_source(
    name: str, tmp_path: Path
) -> None:
    make, parse = FORMATS[name]
    text, document = written(tmp_path, name, make(*SOURCE), make(*EARLIER))
    expected = (("one", "Der Hund"), ("two", "x"), ("three", "x"))
    assert parse(text) == parse(make(*expected))
    assert [text.name for text in document.texts] == ["key two", "key three"] or (
        {text.name for text in document.texts} == {"key two", "key three"}
    )
    kept, gone = document.notes[-2:]
    assert kept.startswith("1 text stays as in ")
    assert gone.endswith("left out, such as key gone")


@pytest.mark.parametrize("name", FORMATS)
def test_a_second_run_changes_nothing(name: str, tmp_path: Path) -> None:
    make, _ = FORMATS[name]
    once = replaced_lines(read(make(*SOURCE), name), "Ein x").decode()
    again, document = written(tmp_path, name, make(*SOURCE), once)
    assert again == once
    assert not document.texts


def test_marks_escapes_and_plurals_of_android_stay(tmp_path: Path) -> None:
    head = '<resources>\n  <string name="a">A %1$s &amp; <b>dog</b></string>\n'
    source = head + (
        '  <plurals name="d">\n    <item quantity="one">%d dog</item>\n'
        '    <item quantity="other">%d dogs</item>\n  </plurals>\n'
        '  <string-array name="p"><item>A dog</item><item>A cat</item></string-array>\n'
        "</resources>\n"
    )
    options = DocumentOptions(Languages(source="en", target="pl"))
    first = replaced_lines(
        read_document(source.encode(), "s.xml", "android", options), "x"
    ).decode()
    corrected = first.replace('"few">x', '"few">%d psy \\u0041').replace(
        "<item>x</item><item>x", '<item>x</item><item>"Kot  i"'
    )
    corrected = (
        corrected[: corrected.index("<string")]
        + ('<string name="a"><![CDATA[<a href="x">Pies</a>]]> <i>&amp;</i></string>\n')
        + corrected[corrected.index("  <plurals") :]
    )
    output = tmp_path / "s.xml"
    output.write_text(corrected)
    document = read_document(source.encode(), "s.xml", "android", options)
    merged = with_earlier_texts(document, output, "pl")
    assert replaced_lines(merged, "y").decode() == corrected
    assert len(document.texts) == len(merged.texts) + 7


def test_what_is_no_language_stays_as_it_was_corrected(tmp_path: Path) -> None:
    source = {"url": "https://a.org/en", "ok": "A dog", "n": 1}
    earlier = {"url": "https://a.org/de", "ok": "🐕", "n": 2}
    text, _ = written(tmp_path, "a.json", json.dumps(source), json.dumps(earlier))
    assert json.loads(text) == {**earlier, "n": 1}


def test_the_root_of_rails_is_another(tmp_path: Path) -> None:
    source = "en:\n  a: A dog\n  b: |\n    Two cats\n    run\n"
    earlier = 'de:\n    a: "Der: Hund"\n    b: |\n        Zwei Katzen\n        rennen\n'
    text, document = written(tmp_path, "a.yml", source, earlier)
    assert yaml.safe_load(text) == yaml.safe_load(earlier)
    assert not document.texts


def test_lists_of_another_length_are_translated_anew(tmp_path: Path) -> None:
    source = {"a": ["A dog", "A cat", "A bird"], "b": ["A dog", "A cat"]}
    earlier = {"a": ["Hund", "Vogel"], "b": ["Hund", "Katze"]}
    text, document = written(
        tmp_path, "a.json", json.dumps(source), json.dumps(earlier)
    )
    assert json.loads(text) == {"a": ["x", "x", "x"], "b": ["Hund", "Katze"]}
    assert any("2 texts are translated anew" in note for note in document.notes)


@pytest.mark.parametrize(
    ("name", "source", "earlier", "form"),
    [
        (
            "a.json",
            '{"d_one": "A dog", "d_other": "Dogs"}',
            '{"d_one": "Pies", "d_few": "Psy", "d_other": "Psa"}',
            "key d_few",
        ),
        (
            "a.ftl",
            "d = Dogs\n",
            "d = { $n ->\n    [one] Hund\n   *[other] Hunde\n }\n",
            "key d [one]",
        ),
    ],
)
def test_forms_that_the_source_lacks_are_not_lost(
    name: str, source: str, earlier: str, form: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as problem:
        written(tmp_path, name, source, earlier)
    assert f"such as {form}, which would be lost" in str(problem.value)


@pytest.mark.parametrize("text", ["{", '{"a": 1, "a": 2}', "\x00"])
def test_an_output_that_cannot_be_read_is_not_replaced(
    text: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="mend it, or give `retranslate=True`"):
        written(tmp_path, "a.json", '{"a": "A dog"}', text)
    for empty in ("", "{}"):
        made, _ = written(tmp_path, "a.json", '{"a": "A dog"}', empty)
        assert made == '{"a": "x"}'


MARKED = {
    "a.po": (
        'msgctxt "m"\nmsgid "A dog"\nmsgstr "{}"\n\nmsgid "A cat"\nmsgstr ""\n',
        '#, fuzzy\nmsgctxt "m"\nmsgid "A dog"\nmsgstr "Hund"\n',
    ),
    "a.ts": (
        "<TS><context><name>c</name><message><source>A dog</source>"
        "<translation>{}</translation></message></context></TS>",
        "<TS><context><name>c</name><message><source>A dog</source>"
        '<translation type="unfinished">Hund</translation></message></context></TS>',
    ),
    "a.xlf": (
        '<xliff version="1.2"><file original="f"><body><trans-unit id="1">'
        "<source>A dog</source><target>{}</target></trans-unit></body></file></xliff>",
        '<xliff version="1.2"><file original="f"><body><trans-unit id="1"><source>A dog</source>'
        '<target state="needs-translation">Hund</target></trans-unit></body></file></xliff>',
    ),
}


@pytest.mark.parametrize("name", MARKED)
def test_what_a_person_has_read_is_not_replaced(name: str, tmp_path: Path) -> None:
    made, unread = MARKED[name]
    source = made.format("")
    with pytest.raises(DataError, match=r"lacks, such as that of 'A dog', which"):
        written(tmp_path, name, source, made.format("Hund"))
    _, document = written(tmp_path, name, made.format("Mein Hund"), made.format("Hund"))
    assert not any("replaced" in note for note in document.notes)
    if name != "a.xlf":  # that state says that it is none
        _, document = written(tmp_path, name, source, unread)
        assert (
            "nobody has marked as read, such as that of 'A dog'" in document.notes[-1]
        )
    other = made.format("Hund").replace("A dog", "A bird")
    assert written(tmp_path, name, source, other)[1].texts


@pytest.mark.parametrize("name", MARKED)
def test_a_second_run_marks_what_it_replaces(name: str, tmp_path: Path) -> None:
    source = MARKED[name][0].format("")
    first, _ = written(tmp_path, name, source, "")
    again, document = written(tmp_path, name, source, first)
    assert again == first
    assert "left out" not in " ".join(document.notes)


def test_a_number_that_needs_no_reader_is_not_lost(tmp_path: Path) -> None:
    source = 'msgid "100%"\nmsgstr ""\n\nmsgid "A dog"\nmsgstr ""\n'
    first, _ = written(tmp_path, "a.po", source, "")
    for earlier in (
        first,
        source.replace('"100%"\nmsgstr ""', '"100%"\nmsgstr "100%"'),
    ):
        again, _ = written(tmp_path, "a.po", source, earlier)
        assert again == first


def test_a_segment_is_read_once_a_person_has_said_so(tmp_path: Path) -> None:
    source = (
        '<xliff version="2.0"><file id="f"><unit id="1"><segment><source>A dog</source></segment>'
        "</unit></file></xliff>"
    )
    made, _ = written(tmp_path, "a.xlf", source, "")
    assert '<segment state="translated" subState="regard:unread">' in made
    again, document = written(tmp_path, "a.xlf", source, made)
    assert again == made
    assert "1 translation is replaced" in document.notes[-1]
    for state in ('state="translated"', 'state="final" subState="regard:unread"'):
        read_one = made.replace('state="translated" subState="regard:unread"', state)
        with pytest.raises(DataError, match="which would be lost"):
            written(tmp_path, "a.xlf", source, read_one)


def test_files_are_made_in_turn(tmp_path: Path) -> None:
    """The call in Python: corrections stay, `retranslate` replaces them, and a refusal changes
    nothing.
    """
    folder(tmp_path / "run", end=2.0)
    translator: Translator = regard.load(tmp_path / "run")
    source = tmp_path / "a.json"
    output = tmp_path / "b.json"
    source.write_text('{"a": "나는 집에 간다"}')
    first = translator.translate_document(source, output).data
    output.write_text('{"a": "I go home"}')
    document = regard.documents.open(source)
    for given in (source, document):
        result = translator.translate_document(given, output)
        assert result.data == output.read_bytes() == b'{"a": "I go home"}'
        assert result.texts == 0
        assert result.notes[-1].startswith(f"1 text stays as in {output}")
    assert len(document.texts) == 1
    source.write_text('{"a": "나는 집에 간다", "b": "나는 집에 간다"}')
    result = translator.translate_document(source, output)
    assert json.loads(output.read_text())["a"] == "I go home"
    assert result.texts == 1
    output.write_text("{")
    with pytest.raises(RegardError):
        translator.translate_document(source, output)
    assert output.read_text() == "{"
    source.write_text('{"a": "나는 집에 간다"}')
    assert translator.translate_document(source, output, retranslate=True).data == first
