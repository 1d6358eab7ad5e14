"""Message files of Java: keys, comments, line ends and encodings stay to the byte."""

from __future__ import annotations

import re

import pytest
from helpers.document_checks import hostile_outputs, translate_lines

from regard.common.errors import DataError
from regard.documents import Document
from regard.documents.formats import read_document

FILE = r"""# Messages of the dog house
! another comment = no value

title=Two dogs play
   spaced.key   :   Welcome to the house \
        and stay \
        for a cat
with\ space\:colon = It isn''t in {0,number,#.##} of {1}
choice={0,choice,0#no dogs|1#one dog|1<{0} dogs}
quoted='{'braces'}' and {0} dogs
lines=One dog plays.\n\
      A cat sleeps.\n\ttabs
url=https://example.org/dogs
button.mnemonic=T
empty=
alone
percent=100 % of the dogs don't play
path=C:\\dogs\\cat.txt
escaped=A dog\: two cats\=three
"""
FILES = {
    "ascii": FILE.encode(),
    "windows": FILE.replace("\n", "\r\n").encode(),
    "old mac": FILE.replace("\n", "\r").encode(),
    "escapes": FILE.replace("cat", r"K\u00e4tzchen \ud83d\ude00").encode(),
    "latin-1": FILE.replace("cat", "Kätzchen").encode("latin-1"),
    "utf-8": FILE.replace("cat", "Kätzchen 고양이").encode(),
    "mark": FILE.encode("utf-8-sig"),
    "without an end": b"a=Two dogs",
    "empty": b"",
    "printf": b"a=%s has %d dogs\nb=Don't play with %1$s\n",
}


def properties(data: bytes) -> dict[str, str]:
    """Read a file as the documentation of java.util.Properties says, character by character."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    logical = list[str]()
    continues = False
    for line in re.split("\r\n|\r|\n", text):
        line = line.lstrip(" \t\f")
        if continues:
            logical[-1] += line
        elif line and line[0] not in "#!":
            logical.append(line)
        else:
            continue
        slashes = len(line) - len(line.rstrip("\\"))
        continues = slashes % 2 == 1
        if continues:
            logical[-1] = logical[-1][:-1]
    return dict(map(pair, logical))


def pair(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in "=: \t\f":
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(" \t\f")
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(" \t\f")
    return unescaped(line[:end]), unescaped(value)


def unescaped(text: str) -> str:
    result = ""
    letters = iter(text)
    for letter in letters:
        if letter == "\\":
            letter = next(letters)
            if letter == "u":
                letter = chr(int("".join(next(letters) for _ in range(4)), 16))
            else:
                letter = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(
                    letter, letter
                )
        result += letter
    return result.encode("utf-16", "surrogatepass").decode("utf-16")


def lines_without_values(data: bytes) -> list[bytes]:
    """The comments and keys of a file, with line ends."""
    logical = re.findall(rb"(?:\\(?:\r\n|[\s\S])|[^\\\r\n])*(?:\r\n|[\r\n]|\Z)", data)
    return [
        re.sub(rb"([=:]\s*)[^#!=:][\s\S]*?(\s*)\Z", rb"\1\2", line)
        if line.lstrip()[:1] not in (b"#", b"!")
        else line
        for line in logical
    ]


def read(text: str) -> Document:
    return read_document(text.encode(), "a.properties")


@pytest.mark.parametrize("name", FILES)
def test_all_but_texts_stays(name: str) -> None:
    data = FILES[name]
    source = properties(data)
    names = {text.name for text in read_document(data, "a.properties").texts}
    for output in hostile_outputs(data, "a.properties"):
        translated = properties(output)
        assert [*translated] == [*source]
        for key, value in source.items():
            assert bool(translated[key]) == bool(value)
            if f"key {key}" not in names:
                assert translated[key] == value
        assert lines_without_values(output) == lines_without_values(data)
        assert data.isascii() == output.isascii()


def test_texts_are_read_without_escapes() -> None:
    document = read(FILE)
    assert {text.name: (text.text, text.dialect) for text in document.texts} == {
        "key title": ("Two dogs play", "plain"),
        "key spaced.key": ("Welcome to the house and stay for a cat", "plain"),
        "key with space:colon": ("It isn't in {0,number,#.##} of {1}", "icu"),
        "key choice": ("{0,choice,0#no dogs|1#one dog|1<{0} dogs}", "messageformat"),
        "key quoted": ("'{'braces'}' and {0} dogs", "messageformat"),
        "key lines": ("One dog plays.\nA cat sleeps.\n\ttabs", "plain"),
        "key percent": ("100 % of the dogs don't play", "plain"),
        "key escaped": ("A dog: two cats=three", "plain"),
    }
    assert read("# Of a\n! button\na=A dog plays\n").texts[0].comment == "Of a\nbutton"
    assert {text.dialect for text in read(FILES["printf"].decode()).texts} == {"c"}


def test_apostrophes_of_messages_are_doubled() -> None:
    document = read("a=No {0} dog\nb=No dog\nc=Isn''t {0} a dog\n")
    assert translate_lines(document, "L'").decode() == (
        "a=L''No {0} dog\nb=L'No dog\nc=L''Isn''t {0} a dog\n"
    )


def test_a_file_with_contractions_has_no_messages() -> None:
    document = read("a=No {0} dog\nb=A dog isn't {0}\n")
    assert (
        translate_lines(document, "L'").decode()
        == "a=L'No {0} dog\nb=L'A dog isn't {0}\n"
    )
    assert {text.dialect for text in document.texts} == {"dotnet"}


def test_lines_are_continued_as_they_were() -> None:
    source = "a=A dog plays with a cat \\\n    in the snow \\\n    near us\nb=One.\\n\\\n  Two cats.\n"
    assert translate_lines(read(source), "Very often ").decode() == (
        "a=Very often A dog plays \\\n    with a cat in the snow \\\n    near us\n"
        "b=Very \\\n  often \\\n  One.\\n\\\n  Very \\\n  often Two \\\n  cats.\n"
    )
    assert translate_lines(read("a=A dog\n"), "  ü").decode() == "a=\\  \\u00fcA dog\n"


def test_bad_escapes_are_refused_with_their_place() -> None:
    with pytest.raises(
        DataError, match=r"a\.properties, line 2, column 5: \\u without four digits"
    ):
        read("a=b\nb=a \\u12 dog\n")
    with pytest.raises(
        DataError, match=r"line 1, column 5: the file ends with a backslash"
    ):
        read("a=b\\")
