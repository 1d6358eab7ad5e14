"""String files of Android, .NET and Qt: hostile models over many strings, reread by ElementTree."""

from __future__ import annotations

import random
import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from helpers.hostile_models import MODELS, say_nothing, translate_document

from regard.common.errors import DataError
from regard.data.languages import Languages
from regard.documents import Document, DocumentOptions
from regard.documents.formats import read_document
from regard.text.text_format import TranslatedText
from regard.text.translation import Translation

ANDROID = """<?xml version="1.0" encoding="utf-8"?>
<!-- > strings -->
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    {}
</resources>
"""
RESX = """<?xml version="1.0" encoding="utf-8"?>
<root>
  <resheader name="version"><value>2.0</value></resheader>
  {}
</root>
"""
QT = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="{}">
<context>
    <name>Window</name>
    {}
</context>
</TS>
"""
STRINGS = {
    "plain": '<string name="a">Two dogs play</string>',
    "escaped": r"""<string name="a">Don\'t \"play\"\nwith dogs \u0041 &amp; \@me</string>""",
    "quoted": """<string name="a"> "It's a dog, isn't it" </string>""",
    "tags": r'<string name="a">A <b>red</b> bike, it\'s <a href="x">here</a></string>',
    "break": r'<string name="a">One <b>dog</b>\nTwo <i>dogs</i> play</string>',
    "kept": '<string name="a">Play <xliff:g id="n" example="5">%1$d</xliff:g> dogs</string>',
    "cdata": r"<string name='a'><![CDATA[A <b>red</b> bike, it\'s]]></string>",
    "wrapped": '<string name="a">\n        Two dogs\n        play\n    </string>',
    "array": '<string-array name="a"><item>One dog</item><item>@string/b</item></string-array>',
    "plural": '<plurals name="a">\n        <item quantity="one">%d dog</item>\n        <item '
    'quantity="other">%d dogs</item>\n    </plurals>',
    "locked": '<string name="a" translatable="false">Rex</string>',
    "reference": '<string name="a">@string/b</string><string name="c">?attr/d</string>',
    "others": '<color name="a">red</color><item name="b" type="id">dogs</item>',
    "empty": '<string name="a"></string><string name="b"/><string name="c">12 %</string>',
}
DATA = {
    "plain": '<data name="a" xml:space="preserve"><value>Two dogs</value></data>',
    "lines": '<data name="a"><value>Two {0} dogs\n\n play &lt;b&gt;here&lt;/b&gt;</value>'
    "<comment>a menu</comment></data>",
    "typed": '<data name="a" type="x"><value>red</value></data><data name="b" mimetype="y">'
    "<value>AAEC</value></data>",
    "names": '<data name="&gt;&gt;a.Name"><value>button</value></data>',
    "locked": '<data name="a"><value>Rex</value><comment>{Locked}</comment></data>',
    "empty": '<data name="a"><value></value></data><data name="b"><value/></data>',
    "returns": '<data name="a"><value>Two dogs&#13;\nplay</value></data>',
}
MESSAGES = {
    "plain": "<message>\n        <source>&amp;Open %1</source>\n        <translation type="
    '"unfinished"></translation>\n    </message>',
    "tag": "<message><source>Two dogs</source><translation type='unfinished'/></message>",
    "done": "<message><source>a</source><translation>b</translation></message>",
    "gone": '<message><source>a</source><translation type="vanished">b</translation></message>',
    "byte": '<message><source>Two <byte value="x1b"/> dogs</source><translation '
    'type="unfinished"></translation></message>',
    "plural": '<message numerus="yes">\n        <source>%n dog(s)</source>\n        <translation'
    ' type="unfinished">\n            <numerusform></numerusform>\n        </translation>\n'
    "    </message>",
    "no form": '<message numerus="yes"><source>%n dog(s)</source><translation '
    'type="unfinished"></translation></message>',
    "lines": "<message><source>Two &lt;b&gt;dogs&lt;/b&gt;\nplay</source><comment>x</comment>"
    '<extracomment>y</extracomment><translation type="unfinished"></translation></message>',
}
FILES = {
    **{f"{name} strings.xml": ANDROID.format(text) for name, text in STRINGS.items()},
    **{f"{name} a.resx": RESX.format(text) for name, text in DATA.items()},
    **{f"{name} a.ts": QT.format("de", text) for name, text in MESSAGES.items()},
    "all strings.xml": ANDROID.format("\n    ".join(STRINGS.values())),
    "all a.ts": QT.format("de", "\n    ".join(MESSAGES.values())),
    "crlf a.resx": RESX.format("\n  ".join(DATA.values())).replace("\n", "\r\n"),
    "mark strings.xml": "\ufeff" + ANDROID.format(STRINGS["tags"]),
}
CHANGED = r"(?s)(<(string|item|value|translation|numerusform)\b[^>]*(?<!/))>(?:(?!</\2>).)*</\2>"


def read(
    text: str, name: str, target: str = "de", retranslate: bool = False
) -> Document:
    languages = Languages(source="en", target=target)
    options = DocumentOptions(languages, retranslate=retranslate)
    return read_document(text.encode(), name.split()[-1], options=options)


def same(words: list[str], draw: random.Random) -> list[str]:
    return words


def upper(words: list[str], draw: random.Random) -> list[str]:
    return [word.upper() if word.isalpha() else word for word in words]


def without_texts(text: str) -> str:
    text = re.sub(r"\s*<translatorcomment>Machine[^<]*</translatorcomment>", "", text)
    text = re.sub(r"\s*<numerusform></numerusform>\s*|\s*type=.unfinished.", "", text)
    return re.sub(CHANGED, r"\1/>", text).replace("<translation></translation>", "")


def inline(text: str) -> list[Counter[str]]:
    """The inline elements of each string."""
    root = ElementTree.fromstring(text.encode())
    return [
        Counter(f"{part.tag} {part.attrib}" for part in element.iter())
        for element in root.iter()
        if element.tag in ("string", "value")
    ]


@pytest.mark.parametrize("name", FILES)
def test_all_but_the_texts_stays(name: str) -> None:
    text = FILES[name]
    for seed, model in enumerate([*MODELS, say_nothing]):
        result = translate_document(read(text, name), model, seed).decode()
        assert without_texts(result) == without_texts(text)
        assert inline(result) == inline(text)
        for android in re.findall(r"<string [^>]*>(.*?)</string>", result):
            bare = re.sub(r"\\.|<[^>]*>|\s*\".*\"\s*", "", android)
            assert not {"'", '"'} & {*bare}


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith(".ts")])
def test_unchanged_texts_are_the_same_bytes(name: str) -> None:
    text = FILES[name]
    assert translate_document(read(text, name), same).decode() == text


def test_nothing_is_no_translation() -> None:
    for name in ("plain strings.xml", "tags strings.xml", "plain a.resx", "tag a.ts"):
        result = translate_document(read(FILES[name], name), say_nothing)
        assert result.decode() == FILES[name]


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".ts")])
def test_translations_of_qt_come_back_unfinished(name: str) -> None:
    result = translate_document(read(FILES[name], name), same).decode()
    for message in ElementTree.fromstring(result.encode()).iter("message"):
        source, target = message.find("source"), message.find("translation")
        assert source is not None
        assert target is not None
        forms = target.findall("numerusform") or [target]
        if target.get("type") == "unfinished":
            wanted = "".join(source.itertext()).split()
            texts = ["".join(form.itertext()).split() for form in forms]
            assert texts == [wanted] * (1 + (message.get("numerus") == "yes"))
        else:
            assert target.text == "b"


def test_escapes_are_decoded_and_encoded() -> None:
    document = read(FILES["escaped strings.xml"], "strings.xml")
    assert document.texts[0].text == 'Don\'t "play"\nwith dogs A & @me'
    (written,) = [TranslatedText('L\'eau "a"\n\t\\n & @b')]
    assert rb"L\'eau \"a\"\n\t\\n &amp; @b</string>" in document.write([written])
    quoted = read(FILES["quoted strings.xml"], "strings.xml")
    assert b"""> "L'eau" </string>""" in quoted.write([TranslatedText("L'eau")])
    mention = document.write([TranslatedText("@b")])
    assert rb'name="a">\@b</string>' in mention
    tags = read(FILES["tags strings.xml"], "strings.xml")
    marked = tags.write([TranslatedText("L'eau <b>d'or</b> <a href=\"x\">l'</a>")])
    assert rb"""L\'eau <b>d\'or</b> <a href="x">l\'</a>""" in marked
    cdata = read(FILES["cdata strings.xml"], "strings.xml")
    assert rb"<![CDATA[<i>L\'eau</i>]]>" in cdata.write(
        [TranslatedText("<i>L'eau</i>")]
    )


@pytest.mark.parametrize(
    ("target", "quantities"),
    [
        ("de", ["one", "other"]),
        ("ru", ["one", "few", "many", "other"]),
        ("ar", ["one", "zero", "two", "few", "many", "other"]),
        ("ko", ["one", "other"]),
    ],
)
def test_plurals_get_the_categories_of_the_target(
    target: str, quantities: list[str]
) -> None:
    document = read(FILES["plural strings.xml"], "strings.xml", target)
    result = translate_document(document, upper).decode()
    items = ElementTree.fromstring(result.encode()).iter("item")
    texts = {item.get("quantity"): item.text for item in items}
    assert [*texts] == quantities
    assert texts.pop("one") == "%d DOG"
    assert {*texts.values()} == {"%d DOGS"}
    assert len(document.notes) == (len(quantities) > 2)
    qt = read(QT.format(target, MESSAGES["plural"]), "a.ts", "de")
    forms = translate_document(qt, same).decode().count("<numerusform>%n dog(s)<")
    assert forms == {"de": 2, "ru": 3, "ar": 6, "ko": 1}[target]


def test_locked_texts_and_translations_stay() -> None:
    for name in ("locked strings.xml", "locked a.resx", "done a.ts", "gone a.ts"):
        document = read(FILES[name], name)
        assert not document.texts
        assert document.notes[1:] == ("there is nothing to translate",)
        assert translate_document(document, same).decode() == FILES[name]
    again = read(FILES["done a.ts"], "a.ts", retranslate=True)
    result = translate_document(again, same)
    assert b'<translation type="unfinished">a</translation>' in result
    (text,) = read(FILES["lines a.ts"], "a.ts").texts
    assert (text.name, text.comment, text.dialect) == ("line 6", "x\ny", "qt")
    (text,) = read(FILES["lines a.resx"], "a.resx").texts
    assert (text.name, text.comment, text.dialect) == ("key a", "a menu", "dotnet")


def test_qt_gets_the_language() -> None:
    text = FILES["plain a.ts"].replace(' language="de"', "")
    result = translate_document(read(text, "a.ts", "pt-BR"), same).decode()
    assert '<TS language="pt_BR" version="2.1">' in result


@pytest.mark.parametrize(
    ("text", "name", "cause"),
    [
        ("<a/>", "a.resx", "line 1: wanted <root>, got <a>"),
        ("<root><data></root>", "a.resx", "line 1: not well-formed XML"),
        ('<!DOCTYPE r [<!ENTITY a "b">]><root/>', "a.resx", "declares the entity 'a'"),
        ("<resources>\n<string>a</b></resources>", "a.xml", "line 2: not well-formed"),
    ],
)
def test_bad_files_are_refused_with_the_line(text: str, name: str, cause: str) -> None:
    with pytest.raises(DataError, match=cause):
        read(text, name)


@pytest.mark.parametrize(
    "link",
    [
        '<![CDATA[See <a href="https://a.org">it</a> "here"]]>',
        "<![CDATA[See <a href='https://a.org'>it</a>]]>",
        '<![CDATA[See <a href=\\"https://a.org\\">it</a>]]>',
        '&lt;a href=\\"https://a.org\\"&gt;See it&lt;/a&gt;',
    ],
)
def test_tags_of_android_keep_their_quotation_marks(link: str) -> None:
    text = f'<resources><string name="a">{link}</string></resources>'
    document = read(text, "strings.xml")
    lines = [
        Translation(line.replace("See", 'Don\'t "see"'), (), 0.0)
        for line in document.lines
    ]
    written = document.render(lines).decode()
    escaped = link.replace('"here"', '\\"here\\"')
    assert escaped.replace("See", 'Don\\\'t \\"see\\"') in written
