"""JSON files of strings: keys, structure and all that is no text stay to the byte."""

from __future__ import annotations

import json
import re

import pytest
from helpers.document_checks import differences, hostile_outputs, translate_lines

from regard.common.errors import DataError
from regard.data.languages import Languages
from regard.documents import Document, DocumentOptions
from regard.documents.formats import read_document

FLAVOUR = re.compile(r"\.(message|string)$")
OPTIONS = DocumentOptions(languages=Languages(source="en", target="pt-BR"))
STRING = re.compile(r'"(?:\\.|[^"\\])*"')
NESTED = r"""{
  "menu": {"open": "Open the file…", "url": "https://example.org/a_(b)", "deep": [["Two dogs", 7, null], {}]},
  "id": "btn-primary",	"color": "#a0b1c2", "size": "12", "flag": true , "number": -1.5e3,
  "date": "%d.%m.%Y", "pattern": "dd.MM.yyyy", "path": "/usr/share/dogs", "empty": "", "sign": "→",
  "kinds": { "one_key": "A dog\nplays \"there\".\n\nA cat.", "slash": "in the <b>house<\/b>", "tab":"a\tdog" },
  "icu": "{count, plural, one {One dog plays} other {# dogs play in {place}}}",
  "lines": "{count, plural,\n  one {One dog}\n  other {# dogs play}\n}",
  "mail": "Dear dogs,\n\n  you have {count, plural,\n  one {One friend}\n  other {# friends}\n} here.\n\nBye {name}\nnow",
  "type": "A type", "uml": "Ein H\u00fcndchen \ud83d\ude00 plays"
}
"""
I18NEXT = """{
    "greeting": "Hello {{name}}, you have $t(messages.count) new messages",
    "dog_one": "{{count}} dog", "dog_other": "{{count}} dogs",
    "nested": { "title": "Welcome to <1>our house</1>!" }
}"""
ARB = """{
  "@@locale": "en",
  "@@last_modified": "2026-01-01",
  "hello": "Hello {name}, a dog is here",
  "@hello": {"description": "A greeting of people", "placeholders": {"name": {"type": "String", "example": "Mr Bean"}}},
  "dogs": "{count, plural, =0{No dogs} =1{One dog} other{{count} dogs play}}",
  "@dogs": {}
}
"""
CHROME = """{"appName": {"message": "The $NAME$ counts dogs", "description": "Name of the extension",
  "placeholders": {"name": {"content": "$1", "example": "a small dog"}}},
 "stop": {"message": "Stop the dog now"}}"""
TRANSIFEX = '{"a": {"string": "Two dogs play", "developer_comment": "On the button", "character_limit": 12}}'
FILES = {
    "nested.json": NESTED,
    "windows.json": NESTED.replace("\n", "\r\n"),
    "i18next.json": I18NEXT,
    "app_en.arb": ARB,
    "messages.json": CHROME,
    "transifex.json": TRANSIFEX,
    "minified.json": json.dumps(json.loads(NESTED), separators=(",", ":")),
    "array.json": '["Two dogs", "https://example.org", 3, ["A cat"]]',
    "text.json": ' "A dog plays" \n',
    "empty.json": "{}",
}


def read(text: str, name: str = "a.json") -> Document:
    return read_document(text.encode(), name, options=OPTIONS)


def texts(text: str, name: str = "a.json") -> dict[str, str]:
    return {entry.name: entry.text for entry in read(text, name).texts}


def skeleton(text: str) -> str:
    """The text of a file with its strings empty."""
    return STRING.sub('""', text)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_all_but_texts_stays(name: str, mark: bytes) -> None:
    source = FILES[name]
    if name == "app_en.arb":
        source = source.replace('"en"', '"ko"')
    changed = set[str]()
    for data in hostile_outputs(mark + source.encode(), name, OPTIONS):
        assert data.startswith(mark)
        output = data.removeprefix(mark).decode()
        assert skeleton(output) == skeleton(source)
        changed |= differences(json.loads(source), json.loads(output))
        if "\\u" in source:
            assert output.isascii() == source.isascii()
    entries = {FLAVOUR.sub("", path) or "key " for path in changed}
    assert entries == {text.name for text in read(source, name).texts}


def test_messages_keep_their_branches() -> None:
    syntax = re.compile(
        r"\{count, plural,\s*|(?:=\d|one|other) ?\{|\{\w+\}|\}\s*(?=one|other|\})"
    )
    source = json.loads(NESTED)
    for data in hostile_outputs(NESTED.encode(), "a.json"):
        output = json.loads(data)
        for key in ("icu", "lines", "mail"):
            branches = [part.strip() for part in syntax.findall(output[key])]
            assert branches == [part.strip() for part in syntax.findall(source[key])]


def test_keys_of_other_values_stay() -> None:
    source = '{"a": "app.title", "b": "See app.title", "c": "Stop.Go", "d": "etc."}'
    assert [*texts(source)] == ["key b", "key c", "key d"]


def test_what_is_no_language_stays() -> None:
    assert list(texts(NESTED)) == [
        "key menu.open",
        "key menu.deep[0][0]",
        "key kinds.one_key",
        "key kinds.slash",
        "key kinds.tab",
        "key icu",
        "key lines",
        "key mail",
        "key type",
        "key uml",
    ]
    document = read(NESTED)
    assert document.notes == (
        "6 values stay as they are, such as key menu.url: identifiers, addresses, colours, names and the "
        "like",
    )
    assert document.texts[-1].text == "Ein Hündchen 😀 plays"
    assert document.media_type == "application/json"


def test_a_message_of_several_lines_is_one() -> None:
    document = read(NESTED)
    lines = document.texts[6].layout.lines
    assert lines == (document.texts[6].text,)
    message = (
        "you have {count, plural,\n  one {One friend}\n  other {# friends}\n} here."
    )
    mail = document.texts[7]
    assert mail.layout.lines == ("Dear dogs,", message, "Bye {name}", "now")
    assert document.texts[2].layout.lines == ("A dog", 'plays "there".', "A cat.")


def test_escapes_are_those_of_the_file() -> None:
    ascii_file = r'{"a": "caf\u00e9", "b": "a dog", "c": "<b>a cat<\/b>"}'
    output = translate_lines(read(ascii_file), '"é</😀\x01\\').decode()
    begin = r"\"\u00e9<\/\ud83d\ude00\u0001\\"
    assert (
        output
        == rf'{{"a": "{begin}caf\u00e9", "b": "{begin}a dog", "c": "{begin}<b>a cat<\/b>"}}'
    )
    both = r'{"a": "Ein H\u00fcndchen, zwei Hündchen \u003cb>"}'
    output = translate_lines(read(both), "ü<").decode()
    assert output == r'{"a": "ü\u003cEin Hündchen, zwei Hündchen \u003cb>"}'
    mixed = r'{"a": "café \u2028 dog"}'
    output = translate_lines(read(mixed), "ü\u2028").decode()
    assert output == '{"a": "ü\\u2028café \\u2028 ü\\u2028dog"}'


def test_flavours_have_their_dialects() -> None:
    assert {text.dialect for text in read(I18NEXT).texts} == {"i18next"}
    hello, dogs = read(ARB, "app_en.arb").texts
    assert (hello.dialect, hello.comment) == ("icu", "A greeting of people")
    assert dogs.comment == ""
    name, stop = read(CHROME).texts
    assert (name.dialect, name.comment) == ("webextension", "Name of the extension")
    assert (stop.name, stop.text) == ("key stop", "Stop the dog now")
    (limited,) = read(TRANSIFEX).texts
    assert (limited.max_characters, limited.comment) == (12, "On the button")


def test_the_locale_of_an_arb_is_the_target() -> None:
    output = json.loads(translate_lines(read(ARB, "app_en.arb")))
    assert output == {**json.loads(ARB), "@@locale": "pt_BR"}
    other = read(ARB.replace('"en"', '"fr"'), "app_fr.arb")
    assert b'"@@locale": "fr"' in translate_lines(other)
    assert other.notes == (
        "the file says that its language is fr, and the model reads en; the name stays",
    )


def test_plural_forms_that_are_missing_are_reported() -> None:
    options = DocumentOptions(languages=Languages(source="en", target="hsb"))
    document = read_document(I18NEXT.encode(), "a.json", options=options)
    assert document.notes == (
        "1 plural has no form two or few, which Upper Sorbian needs, such as key dog: add them by "
        "hand",
    )
    document = read_document(ARB.encode(), "a.arb", options=options)
    assert document.notes == (
        "1 plural has no form two or few, which Upper Sorbian needs, such as key dogs: add them by "
        "hand",
    )
    assert not read(I18NEXT).notes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '{"a": "b",\n "a": "c"}',
            "line 2, column 2: the key 'a' stands twice in one object",
        ),
        (
            '[{"a": {"b": 1, "c": {"b": 2}, "b": 3}}]',
            "line 1, column 32: the key 'b' stands",
        ),
        ("[" * 1_000_000, "line 1, column 1: more than 500 levels"),
        ('{"a":' * 100_000, "line 1, column 1: more than 500 levels"),
        ('{"a": "b",\n}', "line 2, column 1: no JSON: Expecting property name"),
        ("{'a': 1}", "line 1, column 2: no JSON: Expecting property name"),
        ('{"a" "b"}', "line 1, column 6: no JSON: Expecting ':' delimiter"),
        ('["a" // no\n]', "line 1, column 6: no JSON: Expecting ',' delimiter"),
        ('{"a": "b\nc"}', "line 1, column 9: no JSON: Invalid control character"),
        ('{"a": "\\x"}', "line 1, column 8: no JSON: Invalid"),
        ('{"a": 1} {', "line 1, column 10: no JSON: Extra data"),
        ("[1", "line 1, column 3: no JSON: Expecting ',' delimiter"),
        ("", "line 1, column 1: no JSON: Expecting value"),
        ('{"a": NaN}', "line 1, column 7: no JSON: NaN is no number of it"),
    ],
)
def test_bad_files_are_refused_with_their_place(text: str, problem: str) -> None:
    with pytest.raises(DataError) as caught:
        read(text)
    assert str(caught.value).startswith(f"a.json, {problem}")


def test_long_numbers_and_equal_keys_of_other_objects_are_read() -> None:
    source = f'{{"a": {"1" * 9000}, "b": {{"a": "A dog"}}, "c": [{{"a": 1}}, {{"a": "A cat"}}]}}'
    assert [*texts(source)] == ["key b.a", "key c[1].a"]


def test_half_characters_stay() -> None:
    source = r'{"a": "a dog \ud83d plays", "b": "A cat"}'
    assert list(texts(source)) == ["key b"]
    assert json.loads(translate_lines(read(source), "x"))["a"] == "a dog \ud83d plays"
