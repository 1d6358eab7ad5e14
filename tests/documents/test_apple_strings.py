"""Message files of Apple's systems: keys, comments, line ends and encodings stay to the byte."""

from __future__ import annotations

import re

import pytest
from helpers.document_checks import hostile_outputs, translate_lines

from regard.common.errors import DataError
from regard.documents import Document
from regard.documents.formats import read_document

FILE = r"""/* Title of the window */
"title" = "Two dogs play";

// Not seen: "a" = "b";
"Hello %@; \"you\" = me" = "Hello %@, %1$ld dogs\nsay \"woof\"\t\U00e9 \\ 'here'";
/* No comment
   of two lines */ /* On the "button"; */
open /* the key */ = /* a gap */ "Open the file…" ; "close"="Close";
"several" = "One dog.
Two cats.";
"url" = "https://example.org/dogs";
"empty" = ""; "word" = word;
"shorthand";
"%d" = "%d";
"""
FILES = {
    "utf-8": FILE.encode(),
    "mark": FILE.encode("utf-8-sig"),
    "windows": FILE.replace("\n", "\r\n").encode("utf-16"),
    "big": b"\xfe\xff" + FILE.encode("utf-16-be"),
    "little without a mark": FILE.encode("utf-16-le"),
    "big without a mark": FILE.encode("utf-16-be"),
    "without an end": b'"a" = "Two dogs";',
    "empty": b"",
    "comments": b"/* only */ // this",
}
PAIR = re.compile(r'("(?:\\.|[^"\\])*"|[\w.]+)\s*(?:=\s*("(?:\\.|[^"\\])*"|\w+)\s*)?;')


def decoded(data: bytes) -> str:
    """Decode a file as Apple's tools do: by its mark, or by its first bytes."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16")
    if b"\0" in data[:2]:
        return data.decode("utf-16-be" if data[0] == 0 else "utf-16-le")
    return data.decode("utf-8-sig")


def pairs(data: bytes) -> list[tuple[str, str]]:
    """The keys and values of a file, as they are written."""
    strings = re.compile(r'"(?:\\.|[^"\\])*"|(/\*[\s\S]*?\*/|//.*)')
    text = strings.sub(lambda match: "" if match[1] else match[0], decoded(data))
    return PAIR.findall(text)


def without(data: bytes, values: list[tuple[str, str]]) -> str:
    """The text of a file without its values, in order."""
    text = decoded(data)
    start = 0
    for _, value in values:
        start = text.index(value, start)
        text = text[:start] + text[start + len(value) :]
    return text


def read(text: str) -> Document:
    return read_document(text.encode(), "Localizable.strings")


@pytest.mark.parametrize("name", FILES)
def test_all_but_texts_stays(name: str) -> None:
    data = FILES[name]
    texts = {text.name for text in read_document(data, "a.strings").texts}
    source = pairs(data)
    assert len(source) == (10 if "title" in decoded(data) else len(texts))
    for output in hostile_outputs(data, "a.strings"):
        translated = pairs(output)
        assert [key for key, _ in translated] == [key for key, _ in source]
        for (key, value), (_, other) in zip(source, translated, strict=True):
            name = key.strip('"')
            if f"key {name}" not in texts and "Hello" not in key:
                assert value == other
            assert (value == '""') == (other == '""')
        assert without(output, translated) == without(data, source)


def test_texts_are_read_without_escapes() -> None:
    document = read(FILE)
    assert [(text.name, text.text) for text in document.texts] == [
        ("key title", "Two dogs play"),
        ('key Hello %@; "you" = me', "Hello %@, %1$ld dogs\nsay \"woof\"\té \\ 'here'"),
        ("key open", "Open the file…"),
        ("key close", "Close"),
        ("key several", "One dog.\nTwo cats."),
    ]
    assert [text.comment for text in document.texts] == [
        "Title of the window",
        "",
        'On the "button";',
        "",
        "",
    ]
    assert {text.dialect for text in document.texts} == {"objc"}


def test_escapes_are_those_of_the_file() -> None:
    output = translate_lines(read(r'"a" = "A \U00e9\n\"dog\"";'), 'ü"é\\').decode()
    assert output == r'"a" = "ü\"\U00e9\\A \U00e9\nü\"\U00e9\\\"dog\"";'
    output = translate_lines(read('"a" = "A dog\nA cat";'), "x ").decode()
    assert output == '"a" = "x A dog\nx A cat";'


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('"a" = "b";\n"c" = "d"\n"e" = "f";', "line 2, column 1"),
        ('"a" = "b', "line 1, column 1"),
        ("bplist00\x01", "line 1, column 1"),
        ('<?xml version="1.0"?><plist/>', "line 1, column 1"),
        ("/* never closed", "line 1, column 1"),
    ],
)
def test_other_text_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(
        DataError, match=rf"Localizable\.strings, {place}: wanted \"key\""
    ):
        read(text)
