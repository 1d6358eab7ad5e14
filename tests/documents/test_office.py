"""Documents of office programs: only texts change, and each format and object keeps to its words."""

from __future__ import annotations

import io
import random
import re
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.hostile_models import MODELS, say_nothing, translate_document
from helpers.office_files import (
    HEAD,
    TEXT,
    W,
    docx,
    odt,
    package,
    read_member,
    skeleton,
    tree,
)

import regard
from regard.common.errors import DataError
from regard.data.languages import Languages
from regard.data.text_kinds import kind_of
from regard.documents import Document, DocumentOptions
from regard.documents.formats import read_document
from regard.text.translation import Translation

ROOT = Path(__file__).parents[2]
LANGUAGE = '<w:rPr><w:lang w:val="en-US"/></w:rPr>'
BOLD = "<w:rPr><w:b/></w:rPr>"


def t(text: str, properties: str = "") -> str:
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def field(code: str, shown: str) -> str:
    return (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        f'<w:r><w:instrText xml:space="preserve"> {code} </w:instrText></w:r>'
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{t(shown)}'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


PARAGRAPHS = {
    "bold": f"{t('A man is ')}{t('riding', BOLD)}{t(' a red bike.')}",
    "all bold": f"<w:pPr><w:jc w:val='center'/></w:pPr>{t('Two dogs play.', BOLD)}",
    "split by a spelling mark": (
        f'<w:r w:rsidR="1"><w:t>A wom</w:t></w:r><w:proofErr w:type="spellStart"/>'
        f"{t('an sleeps. She ', LANGUAGE)}{t('dreams.')}"
    ),
    "link": (
        f"{t('Dogs play in the ')}<w:hyperlink r:id='rId4' w:history='1'>{t('white snow')}"
        f"</w:hyperlink>{t(', every day.')}"
    ),
    "two formats of a link": (
        f"<w:hyperlink w:anchor='a'>{t('The ')}{t('second', BOLD)}{t(' page')}</w:hyperlink>"
        f"{t(' is new')}"
    ),
    "footnote": f"{t('A table')}<w:r><w:footnoteReference w:id='2'/></w:r>{t(' stands there.')}",
    "page of pages": f"{t('This is page ')}{field('PAGE', '1')}{t(' of ')}{field('NUMPAGES', '2')}",
    "link as a field": f"{t('See ')}{field('HYPERLINK &quot;x&quot;', 'the page')}{t(' of the club.')}",
    "reference": f"{t('See ')}{field('REF a', 'the red hat')}{t(' and the dog.')}",
    "tabs and breaks": (
        f"<w:r>{BOLD}<w:t>Name:</w:t><w:tab/><w:t>Anna Miller</w:t><w:br/><w:t>City: Rome</w:t></w:r>"
    ),
    "changes": (
        f"{t('A ')}<w:ins w:id='5' w:author='E'>{t('big ')}</w:ins><w:del w:id='6' w:author='E'>"
        f"<w:r><w:delText>small </w:delText></w:r></w:del>{t('dog runs on the beach.')}"
    ),
    "moved": (
        f"<w:moveFrom w:id='1' w:author='E'>{t('Old words. ')}</w:moveFrom>{t('The end is near.')}"
    ),
    "bookmark": (
        f"{t('A woman ')}<w:bookmarkStart w:id='9' w:name='b'/>{t('with a red hat')}"
        f"<w:bookmarkEnd w:id='9'/>{t(' cooks.')}"
    ),
    "mathematics": f"{t('The sum ')}<m:oMath><m:r><m:t>a+b</m:t></m:r></m:oMath>{t(' is small.')}",
    "signs": f"{t('Dogs &amp; cats &lt;here&gt; ')}{t('cost', BOLD)}{t(' 100 % of &#8364; 5.')}",
    "control": (
        f"{t('Dear ')}<w:sdt><w:sdtPr><w:id w:val='3'/></w:sdtPr><w:sdtContent>{t('old friend')}"
        f"</w:sdtContent></w:sdt>{t(', we write.')}"
    ),
    "chosen control": (
        f"{t('Dear ')}<w:sdt><w:sdtPr><w:dropDownList/></w:sdtPr><w:sdtContent>{t('Sir')}"
        f"</w:sdtContent></w:sdt>{t(', we write a letter.')}"
    ),
    "smart tag": (
        f"{t('He lives in ')}<w:smartTag w:uri='u' w:element='City'><w:smartTagPr><w:attr w:name='a'"
        f" w:uri='' w:val='b'/></w:smartTagPr>{t('Rome')}</w:smartTag>{t(' today.')}"
    ),
    "text box": (
        f"{t('People walk past. ')}<w:r><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing>"
        f"<w:txbxContent><w:p>{t('A dog waits here.')}</w:p></w:txbxContent></w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict><w:txbxContent><w:p>{t('A dog waits here.')}</w:p></w:txbxContent>"
        f"</w:pict></mc:Fallback></mc:AlternateContent></w:r>{t('A band plays music.')}"
    ),
    "hyphens": "<w:r><w:t>Twenty</w:t><w:noBreakHyphen/><w:t>two beau</w:t><w:softHyphen/><w:t>tiful dogs</w:t></w:r>",
    "comment": (
        f"{t('It is ')}<w:commentRangeStart w:id='0'/>{t('late')}<w:commentRangeEnd w:id='0'/>"
        f"<w:r><w:commentReference w:id='0'/></w:r>{t(' at night.')}"
    ),
    "contents": (
        "<w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText> TOC \\o </w:instrText></w:r>"
        f"<w:r><w:fldChar w:fldCharType='separate'/></w:r><w:hyperlink w:anchor='_T'>{t('Two dogs')}"
        f"<w:r><w:tab/></w:r>{field('PAGEREF _T', '3')}</w:hyperlink>"
    ),
    "end of contents": "<w:r><w:fldChar w:fldCharType='end'/></w:r>",
    "character data": "<w:r><w:t><![CDATA[A <b> dog]]></w:t></w:r>"
    + t(" barks at night."),
    "only signs": t("12 — 14"),
    "empty": "",
}
BODIES = {
    name: f"<w:p>{inner}</w:p><w:p/><w:sectPr><w:pgSz w:w='11906'/></w:sectPr>"
    for name, inner in PARAGRAPHS.items()
}
BODIES["table"] = (
    "<w:tbl><w:tr><w:tc><w:p>{}</w:p></w:tc><w:tc><w:p>{}</w:p><w:p>{}</w:p></w:tc></w:tr></w:tbl>"
).format(*[PARAGRAPHS[name] for name in ("bold", "link", "footnote")])
BODIES["all"] = "".join(BODIES.values())

SPAN = '<text:span text:style-name="{}">{}</text:span>'.format
TEXTS = {
    "bold": f"A man is {SPAN('Bold', 'riding')} a red bike.",
    "unseen styles": f"A {SPAN('T1', 'wom')}{SPAN('T2', 'an')}{SPAN('T1', ' sleeps.')}",
    "link in a span": SPAN("Bold", 'See <text:a xlink:href="x">the page</text:a> now.'),
    "spaces": "<text:s/>Name:<text:s text:c='4'/>Anna <text:s/>Miller<text:tab/>sleeps",
    "note": (
        'A table<text:note text:id="f"><text:note-citation>1</text:note-citation><text:note-body>'
        "<text:p>It is old.</text:p></text:note-body></text:note> stands there."
    ),
    "field": 'This is page <text:page-number text:select-page="current">1</text:page-number> of it.',
    "comment": "It is late<office:annotation><text:p>Why?</text:p></office:annotation> at night.",
    "change": 'A <text:change-start text:change-id="c"/>big <text:change-end text:change-id="c"/>dog.',
    "frame": (
        "People walk. <draw:frame><draw:text-box><text:p>A dog waits.</text:p></draw:text-box>"
        "</draw:frame>A band plays."
    ),
    "reference mark": (
        'A <text:reference-mark-start text:name="r"/>big dog<text:reference-mark-end '
        'text:name="r"/> barks <text:bookmark text:name="b"/>at night.'
    ),
    "break": "Two dogs<text:line-break/>play outside",
    "meta": f"Dear <text:meta>{SPAN('Bold', 'old friend')}</text:meta>, we write.",
}
CHANGES = (
    "<text:tracked-changes><text:changed-region><text:deletion><text:p>Old words</text:p>"
    "</text:deletion></text:changed-region></text:tracked-changes>"
)
STYLES = "".join(
    f'<style:style style:name="T{number}" style:family="text"><style:text-properties '
    f'officeooo:rsid="00{number}"/></style:style>'
    for number in (1, 2)
)
FILES = {f"{name}.docx": docx(body) for name, body in BODIES.items()}
FILES |= {
    f"{name}.odt": odt(f"{CHANGES}<text:h>{text}</text:h><text:p/>", STYLES)
    for name, text in TEXTS.items()
}
FILES["all.odt"] = odt(
    "".join(f"<text:p>{text}</text:p>" for text in TEXTS.values()), STYLES
)
MEMBER = {".docx": "word/document.xml", ".odt": "content.xml"}
EACH_FILE = pytest.mark.parametrize("name", FILES)


def read(name: str, options: DocumentOptions | None = None) -> Document:
    return read_document(FILES[name], name, options=options)


def member(name: str) -> str:
    return MEMBER[name[name.rindex(".") :]]


SILENT = ("delText", "annotation", "note", "tracked-changes")
KEPT = (
    "reference",
    "chosen control",
    "mathematics",
    "page of pages",
    "character data",
    "field",
)


def keep(words: list[str], draw: random.Random) -> list[str]:
    return words


def fields(data: bytes, name: str) -> list[str]:
    """Return the beginnings, middles and ends of fields in order."""
    return re.findall(r"fldCharType=.(\w+)", read_member(data, member(name)))


def shown_text(element: ElementTree.Element, is_text: bool = False) -> str:
    """Return the text that a reader sees, with a space for what divides it."""
    space, _, name = element.tag[1:].partition("}")
    if name in SILENT:
        return ""
    is_text = (is_text and space == TEXT) or (space, name) in (
        (W, "t"),
        (TEXT, "p"),
        (TEXT, "h"),
    )
    parts = [" " if name in ("tab", "br", "line-break", "s", "p") else ""]
    parts.append("\u2011" if name == "noBreakHyphen" else "")
    parts.append((element.text or "") if is_text else "")
    for child in element:
        parts += [shown_text(child, is_text), (child.tail or "") if is_text else ""]
    return "".join(parts)


@EACH_FILE
def test_a_file_that_is_not_changed_is_the_same(name: str) -> None:
    document = read(name)
    lines = [Translation(line, (), 0.0, ()) for line in document.lines]
    assert document.render(lines) == FILES[name]
    assert translate_document(document, keep) == FILES[name]


@EACH_FILE
def test_structure_stays(name: str) -> None:
    expected = skeleton(tree(FILES[name], member(name)))
    expected_fields = fields(FILES[name], name)
    expected_outside = outside_paragraphs(FILES[name], name)
    for seed, model in enumerate([*MODELS, say_nothing] * 3):
        written = translate_document(read(name), model, seed)
        result = tree(written, member(name))
        assert skeleton(result) == expected
        for element in result.iter():
            assert element.find(f"{{{W}}}t") is None or element.tag == f"{{{W}}}r"
        assert fields(written, name) == expected_fields
        assert outside_paragraphs(written, name) == expected_outside
        assert not re.search(
            r"<w:t(?: [^>]*)?></w:t>", read_member(written, member(name))
        )


def outside_paragraphs(data: bytes, name: str) -> list[str]:
    """Return what stands outside of all paragraphs."""
    parts = re.split(
        r"(</?(?:w:p|text:p|text:h)(?: [^>]*)?>)", read_member(data, member(name))
    )
    depth = 0
    outside = []
    for part in parts:
        depth -= bool(re.match(r"</(w:p|text:[ph])>", part))
        outside += [] if depth else [part]
        depth += bool(re.match(r"<(w:p|text:[ph])(?: [^>/]*)?>", part))
    return outside


@pytest.mark.parametrize(
    "name", [name for name in FILES if name.split(".")[0] not in (*KEPT, "all")]
)
def test_words_are_in_the_order_of_the_translation(name: str) -> None:
    """Links are drawn, so marks stand anywhere; but no word is moved, glued or lost."""
    draw = random.Random(name)
    document = read(name)

    def upper(line: str) -> Translation:
        words = line.upper().split()
        links = [(draw.randrange(len(words)), index) for index in range(len(words))]
        return Translation(" ".join(words), (), 0.0, tuple(links))

    for _ in range(10):
        written = document.render([upper(line) for line in document.lines])
        words = shown_text(tree(written, member(name))).upper().split()
        assert sorted(words) == sorted(
            shown_text(tree(FILES[name], member(name))).upper().split()
        )


FORMATTED = ["bold", "link", "two formats of a link", "signs", "all bold", "control"]


@pytest.mark.parametrize("name", FORMATTED)
def test_formats_follow_their_words(name: str) -> None:
    document = read(f"{name}.docx")

    def reverse(line: str) -> Translation:
        words = line.rstrip(".").split()
        links = tuple((index, len(words) - 1 - index) for index in range(len(words)))
        return Translation(" ".join(words[::-1]), (), 0.0, links)

    written = document.render([reverse(line) for line in document.lines])
    expected = {
        word: look for word, look in looks(FILES[f"{name}.docx"]) if word.isalpha()
    }
    assert {word: look for word, look in looks(written) if word in expected} == expected


def looks(data: bytes) -> list[tuple[str, tuple[bool, bool]]]:
    """Return the words, each with whether it is bold, and in a link."""
    words = []
    root = tree(data)
    linked = {
        run for link in root.iter(f"{{{W}}}hyperlink") for run in link.iter(f"{{{W}}}r")
    }
    for run in root.iter(f"{{{W}}}r"):
        text = "".join(part.text or "" for part in run.iter(f"{{{W}}}t"))
        look = (run.find(f".//{{{W}}}b") is not None, run in linked)
        words += [(word.strip(".,;:"), look) for word in text.split()]
    return words


@pytest.mark.parametrize(
    "name", ["link", "two formats of a link", "control", "link in a span"]
)
def test_an_element_that_held_text_is_never_empty(name: str) -> None:
    file = f"{name}.odt" if name == "link in a span" else f"{name}.docx"
    for model in MODELS:
        for seed in range(30):
            written = translate_document(read(file), model, seed)
            for element in tree(written, member(file)).iter():
                if element.tag.rpartition("}")[2] in ("hyperlink", "sdtContent", "a"):
                    assert "".join(element.itertext()).strip()


def test_inner_paragraphs_are_translated() -> None:
    document = read("text box.docx")
    written = document.render(
        [Translation(f"X{line}", (), 0.0, ()) for line in document.lines]
    )
    assert read_member(written).count(">XA dog waits here.</w:t>") == 2
    note = read("note.odt")
    assert note.lines == ("It is old.", "A table stands there.")


def test_other_members_are_copied() -> None:
    data = docx(
        f"<w:p>{t('A dog barks.')}</w:p>", footnotes=f"<w:p>{t('Two cats.')}</w:p>"
    )
    document = read_document(data, "a.docx")
    assert document.lines == ("A dog barks.", "Two cats.")
    written = document.render(
        [Translation("Ein Hund.", (), 0.0, ()), *translated("Zwei.")]
    )
    before, after = (zipfile.ZipFile(io.BytesIO(file)) for file in (data, written))
    assert before.namelist() == after.namelist()
    for old, new in zip(before.infolist(), after.infolist(), strict=True):
        assert (old.date_time, old.compress_type) == (new.date_time, new.compress_type)
        is_text = old.filename in ("word/document.xml", "word/footnotes.xml")
        assert is_text == (before.read(old) != after.read(new))
    assert "Zwei." in read_member(written, "word/footnotes.xml")


def translated(*texts: str) -> list[Translation]:
    return [Translation(text, (), 0.0, ()) for text in texts]


@pytest.mark.parametrize(
    ("source", "target", "tag", "expected"),
    [
        ("en", "de", '<w:lang w:val="en-US"/>', '<w:lang w:val="de-DE"/>'),
        ("en", "de", '<w:lang w:val="fr-FR"/>', '<w:lang w:val="fr-FR"/>'),
        (
            "en",
            "ko",
            '<w:lang w:val="en-GB"/>',
            '<w:lang w:val="en-GB" w:eastAsia="ko-KR"/>',
        ),
        (
            "ko",
            "en",
            '<w:lang w:eastAsia="ko-KR"/>',
            '<w:lang w:eastAsia="ko-KR" w:val="en-US"/>',
        ),
    ],
)
def test_the_language_is_set(source: str, target: str, tag: str, expected: str) -> None:
    languages = Languages(source=source, target=target)
    styles = f"<w:rPrDefault><w:rPr>{tag}</w:rPr></w:rPrDefault>"
    data = docx(f"<w:p>{t('A dog.', f'<w:rPr>{tag}</w:rPr>')}</w:p>", styles=styles)
    document = read_document(data, "a.docx", options=DocumentOptions(languages))
    written = document.render(translated("Ein Hund."))
    assert expected in read_member(written, "word/styles.xml")
    assert expected in read_member(written)


def test_the_language_of_libreoffice_is_set() -> None:
    properties = '<style:text-properties fo:language="en" fo:country="US"/>'
    data = odt("<text:p>A dog.</text:p>", f"<style:style>{properties}</style:style>")
    options = DocumentOptions(Languages(source="en", target="de"))
    written = read_document(data, "a.odt", options=options).render(
        translated("Ein Hund.")
    )
    assert 'fo:language="de" fo:country="DE"' in read_member(written, "content.xml")


def test_notes_say_what_stays() -> None:
    note = read("changes.docx").notes[0]
    assert "tracked changes stay as written: 1, such as paragraph 1 of word/" in note
    assert "document.xml, “A big dog runs" in note
    assert any("comments" in note for note in read("comment.odt").notes)
    members = {
        "word/vbaProject.bin": b"\0",
        "_xmlsignatures/a.xml": b"",
        "word/comments.xml": b"",
    }
    with zipfile.ZipFile(io.BytesIO(FILES["bold.docx"])) as archive:
        members |= {name: archive.read(name) for name in archive.namelist()}
    notes = read_document(package(members), "a.docm").notes
    assert [note.split()[0] for note in notes] == ["comments", "macros", "the"]


@pytest.mark.parametrize("text", ["<w:t>", "&outer;", "\x00"])
def test_damaged_xml_is_refused_with_its_place(text: str) -> None:
    data = docx(f"<w:p>\n{text}</w:p>")
    with pytest.raises(
        DataError, match=r"a\.docx, word/document\.xml, line \d: not well-formed XML"
    ):
        read_document(data, "a.docx")


def test_other_bad_files_are_refused() -> None:
    options = DocumentOptions(unpacked_bytes=1_000_000)
    good = FILES["bold.docx"]
    entity = f'{HEAD}<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'
    bomb = docx("<w:p/>" + " " * (1 << 20))
    with_password = odt("<text:p/>", manifest="<a><encryption-data/></a>")
    bad = {
        b"\xd0\xcf\x11\xe0\xa1\xb1": "has a password, or is of the old format",
        b"Plain text": "no document of an office program, or cut short",
        good[: len(good) // 2]: "no document of an office program, or cut short",
        package({"a": "b"}): r"\[Content_Types\]\.xml: is missing",
        package({"[Content_Types].xml": entity}): "declares the entity",
        package({"[Content_Types].xml": f"{HEAD}<Types/>"}): "no Word document",
        bomb: "unpacks to more than 1 MB",
    }
    for data, message in bad.items():
        with pytest.raises(DataError, match=rf"^a\.docx.*{message}"):
            read_document(data, "a.docx", options=options)
    with pytest.raises(DataError, match=r"^a\.odt: has a password"):
        read_document(with_password, "a.odt")


def test_damaged_files_are_refused_or_stay_whole() -> None:
    draw = random.Random(1)
    for file in (FILES["all.docx"], FILES["all.odt"]):
        for _ in range(150):
            data = bytearray(file)
            data[draw.randrange(len(data))] = draw.randrange(256)
            kind = kind_of("a", file)
            try:
                document = read_document(bytes(data), "a", kind)
                written = document.render(translated(*document.lines))
            except DataError:
                continue
            assert written == bytes(data)


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.docx", FILES["bold.docx"], "docx"),
        ("a.docm", b"PK\x03\x04", "docx"),
        ("upload", FILES["bold.docx"], "docx"),
        ("a.doc", b"\xd0\xcf\x11\xe0", "docx"),
        ("upload", FILES["bold.odt"], "odt"),
        ("a.ODT", FILES["bold.odt"], "odt"),
        ("a.xlsx", b"PK\x03\x04", "spreadsheet"),
        ("a.pptx", FILES["bold.docx"], "slides"),
    ],
)
def test_kinds_are_recognised(name: str, data: bytes, kind: str) -> None:
    assert kind_of(name, data) == kind


class UpperCase:
    """A translator that writes capitals."""

    def __init__(self, run: str) -> None:
        self.run_folder = run

    def begin_document(self, document: Document) -> UpperCase:
        self.lines = document.lines
        return self

    def run(self) -> list[Translation]:
        return translated(*map(str.upper, self.lines))


@pytest.mark.parametrize(
    "page", ["docs/documents/word.md", "docs/ko/documents/word.md"]
)
def test_the_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(regard, "load", UpperCase)
    Path("letter.docx").write_bytes(FILES["bold.docx"])
    block = re.search(
        r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL
    )
    assert block
    names: dict[str, bytes] = {}
    exec(block[1], names)
    assert "RIDING" in read_member(names["translated"])


@pytest.mark.parametrize("name", ["a.xlsx", "a.odt", "a.epub.docx", "a.zip", "a"])
def test_a_file_is_not_named_like_another(name: str) -> None:
    data = docx(f"<w:p>{t('A dog barks.')}</w:p>")
    if name in ("a.xlsx", "a.odt"):
        with pytest.raises(
            DataError, match=r"is a Word document, and .* name it \.docx"
        ):
            read_document(data, name)
    else:
        assert read_document(data, name).lines == ("A dog barks.",)
