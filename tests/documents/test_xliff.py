"""XLIFF: hostile models over many units, reread by ElementTree."""

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

OLD = """<?xml version="1.0" encoding="UTF-8"?>
<!-- a > b -->
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
  <file source-language="en" target-language="de" datatype="plaintext" original="a">
    <header><note>not &lt;this></note></header>
    <body>
      {}
    </body>
  </file>
</xliff>
"""
NEW = """<xliff xmlns='urn:oasis:names:tc:xliff:document:2.0' version='2.0'
 srcLang='en' trgLang='de'><file id='f'><unit id='u'>{}</unit></file></xliff>
"""
UNITS = {
    "plain": "<source>Two dogs &amp; a cat</source>",
    "element": '<source>A <g id="1">red</g> bike &lt; <x id="2"/> here</source>',
    "nested": '<source>A <g id="1">very <g id="2">red</g></g> bike is here.</source>',
    "codes": '<source><bpt id="1">&lt;b></bpt>Two dogs<ept id="1">&lt;/b></ept> play with '
    '<ph id="2">%s<sub>x</sub></ph> here.<it id="3" pos="open">i</it></source>',
    "crossing": '<source><bpt id="1">a</bpt>One <bpt id="2">b</bpt>dog <ept id="1">c</ept>'
    'plays<ept id="2">d</ept>.</source>',
    "across": '<source><g id="1">One <bx id="2"/>dog</g> plays<ex id="3" rid="2"/> .</source>',
    "protected": '<source>Ask <mrk mtype="protected">Rex</mrk> now.</source>',
    "cdata": "<source><![CDATA[A <b>red</b> bike & more]]></source>",
    "mixed": '<source>One <![CDATA[<b>dog</b>]]> <x id="1"/> plays</source>',
    "comment": "<source>One <!-- no --> dog plays</source>",
    "wrapped": "<source>\n   A man rides\n   a bike\n</source>",
    "lines": '<source xml:space="preserve">One dog\n  two <g id="1">dogs</g>\nplay</source>',
    "empty target": '<source>Two dogs</source>\n<target state="new"></target>',
    "no target": "<source>Two dogs</source><target/>",
    "copied": '<source>Two dogs</source><target state="needs-translation">Two dogs</target>',
    "final": '<source>Done</source><target state="final">Fertig</target>',
    "segments": '<source>One. Two dogs.</source><seg-source><mrk mtype="seg" mid="0">One.</mrk>'
    ' <mrk mtype="seg" mid="1">Two <g id="1">dogs</g>.</mrk></seg-source>',
    "others": "<source>Two dogs</source><alt-trans><source>x</source><target>y</target>"
    "</alt-trans><note>z</note>",
    "numbers": "<source>12</source>",
}
SEGMENTS = {
    "plain": "<segment><source>Two dogs</source></segment>",
    "pair": '<segment state="initial"><source>A <pc id="1">red</pc> <ph id="2"/> bike</source>'
    "</segment>",
    "codes": '<segment><source>Two <sc id="1"/>dogs<ec startRef="1"/> <mrk id="m" '
    'translate="no">Rex</mrk><cp hex="001b"/> play</source></segment>',
    "several": "<notes><note>n</note></notes><segment><source>One.</source></segment>"
    "<ignorable><source> </source></ignorable><segment><source>Two.</source></segment>",
    "done": '<segment state="final"><source>a</source><target>b</target></segment>',
}


def old(unit: str, attributes: str = "") -> str:
    return OLD.format(f'<trans-unit id="1"{attributes}>{unit}</trans-unit>')


FILES = {f"1.2 {name}": old(unit) for name, unit in UNITS.items()} | {
    f"2 {name}": NEW.format(segment) for name, segment in SEGMENTS.items()
}
FILES["all"] = OLD.format(
    "\n".join(f'<trans-unit id="{n}">{u}</trans-unit>' for n, u in UNITS.items())
)
FILES["crlf"] = FILES["all"].replace("\n", "\r\n")


def read(text: str, retranslate: bool = False) -> Document:
    languages = Languages(source="en", target="de")
    options = DocumentOptions(languages, retranslate=retranslate)
    return read_document(text.encode(), "a.xlf", options=options)


def same(words: list[str], draw: random.Random) -> list[str]:
    return words


def local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def codes(element: ElementTree.Element) -> Counter[str]:
    """The inline elements, each with its attributes and the text of codes."""
    return Counter(
        f"{local(child)} {sorted(child.attrib.items())} "
        f"{''.join(child.itertext()) if local(child) in ('bpt', 'ept', 'ph', 'it') else ''}"
        for child in element.iter()
        if child is not element
    )


def pairs(text: str) -> list[tuple[ElementTree.Element, ElementTree.Element | None]]:
    """The sources with their targets, as ElementTree reads them."""
    root = ElementTree.fromstring(text.encode())
    result = []
    for parent in root.iter():
        if local(parent) in ("trans-unit", "segment"):
            children = {local(child): child for child in reversed(parent)}
            source = children.get("seg-source", children["source"])
            result.append((source, children.get("target")))
    return result


def without_targets(text: str) -> str:
    text = re.sub(r"(?s)\s*<target([^>]*/>|[^>]*>.*?</target>)", "", text)
    text = re.sub(r'\s*<note from="Regard" annotates="target">[^<]*</note>', "", text)
    return re.sub(
        r' (state|subState)="(translated|initial|final|regard:broken|regard:unread)"',
        "",
        text,
    )


@pytest.mark.parametrize("name", FILES)
def test_sources_stay_and_targets_have_each_code_once(name: str) -> None:
    text = FILES[name]
    for seed, model in enumerate(MODELS):
        document = read(text, retranslate=seed % 2 == 0)
        result = translate_document(document, model, seed).decode()
        assert without_targets(result) == without_targets(text)
        for source, target in pairs(result):
            if target is not None and "".join(target.itertext()).strip():
                assert codes(target) == codes(source)


@pytest.mark.parametrize("name", FILES)
def test_the_texts_come_back(name: str) -> None:
    result = translate_document(read(FILES[name], retranslate=True), same).decode()
    for source, target in pairs(result):
        assert target is not None
        assert codes(target) == codes(source)
        words = "".join(target.itertext()).split()
        assert words == "".join(source.itertext()).split()
    nothing = translate_document(read(FILES["1.2 plain"]), say_nothing).decode()
    assert nothing == FILES["1.2 plain"]


def test_new_targets_are_marked_as_unreviewed() -> None:
    result = translate_document(read(FILES["1.2 empty target"]), same).decode()
    assert (
        '<target state-qualifier="mt-suggestion" state="needs-review-translation">Two '
        "dogs</target>" in result
    )
    result = translate_document(read(FILES["1.2 plain"]), same).decode()
    assert (
        '<target state="needs-review-translation" state-qualifier="mt-suggestion">Two dogs '
        "&amp; a cat</target>" in result
    )
    result = translate_document(read(FILES["2 pair"]), same).decode()
    assert '<segment subState="regard:unread" state="translated"><source>' in result
    result = translate_document(
        read(old(UNITS["final"], ' approved="yes"'), retranslate=True), same
    ).decode()
    assert 'approved="no"' in result
    assert ">Done</target>" in result


def test_translations_and_locked_texts_stay() -> None:
    for text in (
        FILES["1.2 final"],
        FILES["2 done"],
        old(UNITS["plain"], ' translate="no"'),
        FILES["1.2 plain"]
        .replace("<body>", '<body><group translate="no">')
        .replace("</body>", "</group></body>"),
    ):
        document = read(text)
        assert not document.texts
        assert document.notes[1:] == ("there is nothing to translate",)
        assert translate_document(document, same).decode() == text


def test_languages_and_limits_are_those_of_the_file() -> None:
    text = FILES["1.2 plain"].replace(' target-language="de"', "")
    result = translate_document(read(text), same).decode()
    assert '<file target-language="de" source-language="en"' in result
    text = old(UNITS["others"], ' maxwidth="20" size-unit="char"')
    (unit,) = read(text).texts
    assert (unit.name, unit.max_characters, unit.comment) == ("unit 1", 20, "z")
    assert read(text.replace("char", "pixel")).texts[0].max_characters is None


DEEP = "<g>" * 300 + "</g>" * 300
ENTITY = '<!DOCTYPE xliff [<!ENTITY a "b">]>'
OUTSIDE = '<!DOCTYPE xliff [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (FILES["1.2 plain"].replace("</source>", ""), "line 7: not well-formed XML"),
        (FILES["1.2 plain"].replace("&amp;", "&a;"), "line 7: not well-formed"),
        (ENTITY + NEW.format("&a;"), "line 1: declares the entity 'a'"),
        (OUTSIDE + NEW.format("&a;"), "line 1: declares the entity 'a'"),
        (old(f"<source>{DEEP}</source>"), "line 7: more than 200 elements"),
        (NEW.replace("version='2.0'", "version='3'"), "version 1.2 or 2, got <xliff>"),
        ("<html/>", "wanted <xliff> of version 1.2 or 2, got <html>"),
        ('<?xml version="1.0" encoding="klingon"?><xliff/>', "no known encoding"),
        ("", "line 1: not well-formed XML"),
    ],
)
def test_bad_files_are_refused_with_the_line(text: str, cause: str) -> None:
    with pytest.raises(DataError, match=rf"a\.xlf.*{cause}"):
        read(text)
