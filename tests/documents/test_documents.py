"""Documents: what is not a text stays to the byte, whatever a model makes of the texts."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest
from helpers.hostile_models import MODELS, RULES, Model, translate_document

import regard
from regard.common.errors import DataError, UsageError
from regard.data.languages import Languages
from regard.data.text_kinds import KINDS, LINES
from regard.documents import FORMATS, Document, DocumentOptions, DocumentText
from regard.documents.document import Edit, EditedText, apply_edits, value_slot
from regard.documents.encoding import EncodedText, decode_file
from regard.documents.formats import check_ending, read_document
from regard.requests.translate_request import InputKind
from regard.text.text_path import joint_path, run_path
from regard.text.translation import Translation

ROOT = Path(__file__).resolve().parents[2]
PAGE = """\
<!DOCTYPE html>
<html><head><title>Two dogs</title><style>p { color: red }</style></head>
<body><p>A man is <b>riding</b> a <a href="/red">red bike</a>.</p>
<!-- not seen --><p>Two dogs play. They are <i>happy</i>.</p></body></html>
"""


class Tags(HTMLParser):
    """The tags, comments and declarations of a page, in no order within a paragraph."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen = list[object]()
        self.feed(page)

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        self.seen.append((tag, attributes))

    def handle_endtag(self, tag: str) -> None:
        self.seen.append(tag)

    def handle_comment(self, data: str) -> None:
        self.seen.append(data)


def read(text: str, name: str) -> Document:
    return read_document(text.encode(), name)


@pytest.mark.parametrize("model", MODELS)
def test_a_page_keeps_its_tags(model: Model) -> None:
    for seed in range(5):
        page = translate_document(read(PAGE, "a.html"), model, seed).decode()
        assert sorted(map(str, Tags(page).seen)) == sorted(map(str, Tags(PAGE).seen))
        assert page.startswith("<!DOCTYPE html>\n<html><head><title>")
        assert "<style>p { color: red }</style>" in page


def test_lines_are_translated_alike_in_any_pieces() -> None:
    document = read(PAGE, "a.html")
    count = len(document.lines)

    def translations(bounds: list[slice]) -> list[Translation]:
        results = []
        for part in bounds:
            path = joint_path(document.paths(RULES, part))
            results += run_path(path, lambda request: [upper(t) for t in request.lines])
        return results

    whole = translations([slice(None)])
    assert len(whole) == count == 4
    assert [line.text for line in whole] == [line.upper() for line in document.lines]
    for size in (1, 2, 3):
        bounds = [slice(start, start + size) for start in range(0, count, size)]
        assert translations(bounds) == whole


def upper(text: str) -> Translation:
    links = tuple((index, index) for index in range(len(text.split())))
    return Translation(text.upper(), (), 0.0, links)


def test_texts_of_several_lines_are_joined_as_they_were() -> None:
    source = EncodedText("a = One dog.\n# x\nb = Two.\\nThree.\n")
    slots = [
        value_slot(4, 12, DocumentText("One dog.", "key a")),
        value_slot(
            21,
            33,
            DocumentText("Two.\nThree.", "key b"),
            lambda text: text.replace("\n", "\\n"),
        ),
    ]
    document = EditedText(source, slots)
    assert document.lines == ("One dog.", "Two.", "Three.")
    assert [document.text_of_line(line).name for line in range(3)] == [
        "key a",
        "key b",
        "key b",
    ]
    rendered = document.render([upper(line) for line in document.lines])
    assert rendered == b"a = ONE DOG.\n# x\nb = TWO.\\nTHREE.\n"
    with pytest.raises(UsageError, match="3 lines to translate, but 2 translations"):
        document.render([upper("a"), upper("b")])


def test_edits_at_one_offset_keep_their_order() -> None:
    edits = [Edit(3, 3, "b"), Edit(0, 1, "x"), Edit(3, 3, "c")]
    assert apply_edits("abcd", edits) == "xbcbcd"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("a\r\né".encode("utf-8-sig"), "a\r\né"),
        ("a\r\né".encode("utf-16"), "a\r\né"),
        (b"\xfe\xff" + "é".encode("utf-16-be"), "é"),
        ("é".encode("utf-32"), "é"),
        ("é".encode(), "é"),
    ],
)
def test_encodings_come_back(data: bytes, text: str) -> None:
    decoded = decode_file(data, "a")
    assert decoded.text == text
    assert decoded.encode(text) == data


def test_wrong_encodings_are_said_with_the_line() -> None:
    with pytest.raises(DataError, match=r"a\.po: line 2 is not UTF-8 \(byte 0xff\)"):
        decode_file(b"a\n\xff", "a.po")
    with pytest.raises(DataError, match="'klingon', which is no known encoding"):
        decode_file(b"a", "a.po", "klingon")
    with pytest.raises(DataError, match="ascii, which has no 'é'"):
        decode_file(b"a", "a.po", "ascii").encode("é")


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ('<META http-equiv=x content="text/html; charset=windows-1252">', "cp1252"),
        ("<meta charset=euc-kr>", "euc-kr"),
        ('<?xml version="1.0" encoding="ISO-8859-5"?>', "iso-8859-5"),
    ],
)
def test_pages_are_read_and_written_as_they_declare(head: str, encoding: str) -> None:
    page = f"{head}<p>A “dog”.</p>" if encoding == "cp1252" else f"{head}<p>Я.</p>"
    data = page.encode(encoding)
    document = read_document(data, "a.xml" if "xml" in head else "a.html")
    assert document.render([Translation(x, (), 0.0) for x in document.lines]) == data
    written = document.render([Translation("“Ça”", (), 0.0) for _ in document.lines])
    assert html.unescape(written.decode(encoding)) == f"{head}<p>“Ça”</p>"


def test_unknown_formats_are_refused_by_name() -> None:
    with pytest.raises(
        UsageError, match=r"a\.text: no document of a known format"
    ) as caught:
        read("Plain text.\n", "a.text")
    assert all(name in str(caught.value) for name in FORMATS)


@pytest.mark.parametrize("model", MODELS)
def test_plain_text_keeps_its_lines(model: Model) -> None:
    text = "\ufeffA dog.\r\n\r\n  Two dogs\x0b play here. \r\n12\r\nlast"
    document = read(text, "a.TXT")
    names = [document.text_of_line(line).name for line in range(len(document.lines))]
    assert dict(zip(document.lines, names, strict=True))["last"] == "line 5"
    written = translate_document(document, model).decode()
    assert [line[:2] == "  " for line in written.split("\r\n")] == [
        line[:2] == "  " for line in text.split("\r\n")
    ]
    assert written.split("\r\n")[3] == "12"
    assert document.render([Translation(line, (), 0.0) for line in document.lines]) == (
        text.encode()
    )


def test_the_command_knows_every_format() -> None:
    kinds = {*get_args(InputKind)} - {"auto", *LINES}
    assert kinds == set(FORMATS)
    assert set(FORMATS) <= set(KINDS)


ATTRIBUTES = """\
<html><head><meta name="description" content="Two dogs &amp; a cat"><meta name="x" content="A b">
</head><body><p>A man <img src="a.png" alt='A "red" bike'> rides <a title="A man" href=x>a
bike</a>. <input placeholder="A name" value="A b"> <img alt="" src="b.png"></p>
<p><img src="a.png" alt='A "red" bike'></p><script>x = '<img alt="A b">'</script></body></html>
"""


class Attributes(HTMLParser):
    """The attributes of a page, and their values, sorted."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen = list[tuple[str, str]]()
        self.feed(page)
        self.seen.sort()

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        self.seen += [(f"{tag} {name}", value or "") for name, value in attributes]


def test_attributes_that_people_read_are_translated_on_request() -> None:
    options = DocumentOptions(attributes=True)
    document = read_document(ATTRIBUTES.encode(), "a.html", None, options)
    assert [(text.name, text.text) for text in document.texts[1:]] == [
        ("content in line 1", "Two dogs & a cat"),
        ("alt in line 2", 'A "red" bike'),
        ("title in line 2", "A man"),
        ("placeholder in line 3", "A name"),
    ]
    page = document.render([upper(line) for line in document.lines]).decode()
    expected = Attributes(ATTRIBUTES).seen
    shown = {text.text for text in document.texts[1:]}
    assert Attributes(page).seen == [
        (name, value.upper() if value in shown else value) for name, value in expected
    ]
    assert """<script>x = '<img alt="A b">'</script>""" in page
    for model in MODELS:
        page = translate_document(document, model, 2).decode()
        names = [name for name, _ in Attributes(page).seen]
        assert names == [name for name, _ in expected]


def test_the_texts_of_buttons_are_attributes() -> None:
    buttons = (
        "<input class=a type=submit value='Send it'><INPUT value=Clear type=reset>"
        "<input type='button' value=Go>"
    )
    others = (
        "<input type=text value='A name'><input data-type=submit value='A b'>"
        "<p data-x='y alt=A' :class=\"{a: 'title=B c'}\">A</p><button value=a>B</button>"
    )
    options = DocumentOptions(attributes=True)
    document = read_document((buttons + others).encode(), "a.html", None, options)
    lines = {"Send it": 'Sende "es"', "Clear": "Alles leeren", "Go": ""}
    answers = [Translation(lines.get(line, line), (), 0.0) for line in document.lines]
    assert [text.text for text in document.texts[1:]] == [*lines]
    written = document.render(answers).decode()
    expected = buttons.replace("'Send it'", "'Sende &quot;es&quot;'")
    assert written == expected.replace("Clear", '"Alles leeren"') + others


FOREIGN = """\
<html lang="en"><body title="A dog"><p lang="en-GB">A man <a lang="ko" title="개">한국어</a></p>
<div lang="fr" title="Un chien"><p>Un chien</p> <p lang="en">A dog <b>barks</b></p></div>
<p translate="no" lang="en">A cat</p></body></html>
"""


@pytest.mark.parametrize("model", MODELS)
def test_what_is_in_another_language_stays(model: Model) -> None:
    """Elements that declare one keep their content, attributes and mark, and are named."""
    options = DocumentOptions(Languages(source="en", target="de"), attributes=True)
    document = read_document(FOREIGN.encode(), "a.html", options=options)
    assert document.lines == ("A man 한국어", "A dog barks", "A dog")
    first, second = document.notes
    assert "Korean (`lang`, first in line 1) stays" in first
    assert "French (`lang`, first in line 2) stays" in second
    for seed in range(5):
        page = translate_document(document, model, seed).decode()
        assert page.count('<a lang="ko" title="개">한국어</a>') == 1
        assert '\n<div lang="fr" title="Un chien"><p>Un chien</p> <p lang="de">' in page
        assert page.endswith('<p translate="no" lang="en">A cat</p></body></html>\n')
        assert page.startswith('<html lang="de"><body title=')


def test_a_page_in_another_language_stays() -> None:
    options = DocumentOptions(Languages(source="en", target="ko"), attributes=True)
    text = '<html lang="ko-KR"><title>개</title><p title="개">두 <b>마리</b></p></html>'
    document = read_document(text.encode(), "a.html", options=options)
    assert document.lines == ()
    assert "the model reads English; correct the mark" in document.notes[0]
    assert document.render([]).decode() == text


def test_attributes_stay_otherwise() -> None:
    document = read(ATTRIBUTES, "a.html")
    page = document.render([upper(line) for line in document.lines]).decode()
    assert Attributes(page).seen == Attributes(ATTRIBUTES).seen


class UpperCase:
    """A translator that writes capitals."""

    def __init__(self, run: str) -> None:
        self.run_folder = run

    def begin_document(self, document: Document) -> UpperCase:
        self.lines = document.lines
        return self

    def run(self) -> list[Translation]:
        return [upper(line) for line in self.lines]


@pytest.mark.parametrize("folder", ["docs/documents", "docs/ko/documents"])
@pytest.mark.parametrize(
    ("page", "name", "text"),
    [
        ("website.md", "guide.md", "# Two *dogs*\n"),
        ("subtitles.md", "film.srt", "1\n00:00:01,000 --> 00:00:02,000\nTwo dogs\n"),
    ],
)
def test_pages_run(
    folder: str,
    page: str,
    name: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(regard, "load", UpperCase)
    Path(name).write_text(text, "utf-8")
    content = (ROOT / folder / page).read_text("utf-8")
    block = re.search(r"```python\n(.*?)```", content, re.DOTALL)
    assert block
    names: dict[str, bytes] = {}
    exec(block[1], names)
    written = text.replace("Two", "TWO").replace("dogs", "DOGS")
    assert names["translated"] == written.encode()


@pytest.mark.parametrize(
    ("opening", "expected"),
    [
        ('<html lang="en">', '<html lang="de">'),
        (
            "<HTML xml:lang='en-GB' LANG=en class=a>",
            "<HTML xml:lang='de' LANG=de class=a>",
        ),
        ('<html lang="fr">', '<html lang="fr">'),
        ('<html data-lang="en">', '<html data-lang="en">'),
        ("<html>", "<html>"),
    ],
)
def test_a_page_names_its_language(opening: str, expected: str) -> None:
    text = f'{opening}<body lang="en"><p>Two dogs</p></body></html>'
    options = DocumentOptions(Languages(source="en", target="de"))
    document = read_document(text.encode(), "a.html", options=options)
    written = document.render([Translation("Zwei Hunde", (), 0.0)]).decode()
    page = f'{expected}<body lang="de"><p>Zwei Hunde</p></body></html>'
    assert written == page


@pytest.mark.parametrize(
    ("name", "data", "advice"),
    [
        (
            "a.pptx",
            b"",
            "is slides, which is not translated as it is; save their text as .docx or .odt",
        ),
        ("a.fodt", b"", "is a flat document of LibreOffice, .* save it as .odt"),
        ("a.fods", b"", "is a flat document of LibreOffice, .* or a table as .csv"),
        ("a.xml", b"<?xml version='1.0'?><office:document a='b'>", "save it as .odt"),
        (
            "a.xlsx",
            b"",
            "is a spreadsheet, which is not translated as it is; save it as .csv",
        ),
        ("a.rst", b"A dog", "save its sentences as plain text, one a line$"),
        ("noname", b"A dog", "name it by its format, such as .txt; known are html"),
    ],
)
def test_the_advice_for_what_is_no_document(
    name: str, data: bytes, advice: str
) -> None:
    with pytest.raises(UsageError, match=advice):
        read_document(data, name)


@pytest.mark.parametrize(
    ("name", "kind", "data", "own"),
    [
        ("a.docx", "html", b"PK\x03\x04\xff", "is a Word document, and `input=html`"),
        (
            "strings.xml",
            "po",
            b"<resources><string/></resources>",
            "message file of An",
        ),
    ],
)
def test_an_input_that_the_file_is_not_is_named(
    name: str, kind: str, data: bytes, own: str
) -> None:
    with pytest.raises(DataError, match=own) as problem:
        read_document(data, name, kind)
    assert "leave `input=` out" in problem.value.causes[0]


def test_only_formats_that_declare_encodings_are_told_to() -> None:
    for name, remedy in (
        ("a.html", "let it declare its encoding$"),
        ("a.srt", "UTF-8$"),
    ):
        with pytest.raises(DataError, match=remedy):
            read_document(b"\xe9\n", name)


@pytest.mark.parametrize(
    ("source", "output", "ending"),
    [
        ("a.pot", "a.txt", r"\.po$"),
        ("a.po", "a.html", r"\.po$"),
        ("a.docx", "a.odt", r"\.docx$"),
        ("a.pot", "a.po", ""),
        ("a.docx", "plain", ""),
        ("a.docx", ".", ""),
        ("a.html", "plain", ""),
    ],
)
def test_the_ending_of_an_output(source: str, output: str, ending: str) -> None:
    kind = {"a.docx": "docx", "a.html": "html"}.get(source, "po")
    if not ending:
        check_ending(Path(output), source, kind)
        return
    with pytest.raises(UsageError, match=ending):
        check_ending(Path(output), source, kind)


def test_a_page_of_another_language_is_foreign() -> None:
    options = DocumentOptions(Languages(source="ko", target="en"))
    korean = "<p lang=ko>개</p>"
    for page, is_foreign, count in (
        (f"<html lang=en><p>Two dogs</p>{korean}</html>", True, 1),
        (f"<p lang=en>Two dogs</p>{korean}", False, 1),
        (f"<html lang=ko>{korean}<p lang=en>Two dogs</p></html>", False, 1),
        ("<p lang=en>Two dogs</p>", True, 0),
        ("<p>12</p>", False, 0),
    ):
        document = read_document(page.encode(), "a.html", options=options)
        assert (document.is_foreign, len(document.lines)) == (is_foreign, count)
        assert ("there is nothing to translate" in document.notes) == (not count)
