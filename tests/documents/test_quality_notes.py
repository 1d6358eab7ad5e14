"""Documents note the quality of a translation where their format has room for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regard.documents.formats import read_document
from regard.text.translation import TranslatedPart, Translation

PO = 'msgid "Two dogs"\nmsgstr ""\n'
OLD = """<xliff version="1.2"><file><body><trans-unit id="1">
<source>Two dogs</source>
</trans-unit></body></file></xliff>"""
NEW = (
    '<xliff version="2.0"><file><unit id="1"><segment><source>Two dogs</source></segment>'
    "</unit></file></xliff>"
)
QT = """<TS version="2.1"><context><message>
    <source>Two dogs</source>
    <translation type="unfinished"></translation>
</message></context></TS>"""
BROKEN = "broken: too long: 20 of 10 characters; &lt;b&gt; has no partner"
FAULT = "too long: 20 of 10 characters; <b> has no partner"
PART = TranslatedPart("Two dogs", "Zwei Hunde", -0.1, quality=0.876)
GOOD = Translation("Zwei Hunde", (), -0.1, parts=(PART,))


@pytest.mark.parametrize(
    ("text", "name", "good", "bad"),
    [
        (
            PO,
            "a.po",
            "# Machine translation: quality 0.88\n",
            f"# Machine translation: broken: {FAULT}\n#, fuzzy\n",
        ),
        (
            OLD,
            "a.xlf",
            '\n<note from="Regard" annotates="target">Machine translation: quality 0.88</note>\n',
            f'annotates="target">Machine translation: {BROKEN}</note>\n',
        ),
        (
            NEW,
            "a.xlf",
            '<segment state="translated" subState="regard:quality-0.88">',
            '<segment state="initial" subState="regard:broken">',
        ),
        (
            QT,
            "a.ts",
            "    <translatorcomment>Machine translation: quality 0.88</translatorcomment>\n",
            f"Machine translation: {BROKEN}</translatorcomment>\n",
        ),
    ],
)
def test_quality_is_noted_once(text: str, name: str, good: str, bad: str) -> None:
    document = read_document(text.encode(), name)
    written = document.render([GOOD])
    assert good in written.decode()
    again = written.replace(b"Zwei Hunde", b"")
    broken = (
        read_document(again, name)
        .render([replace(GOOD, broken=True, fault=FAULT)])
        .decode()
    )
    assert bad in broken
    assert good not in broken


def test_a_broken_target_needs_a_translation() -> None:
    written = read_document(OLD.encode(), "a.xlf").render([replace(GOOD, broken=True)])
    assert '<target state="needs-translation" state-qualifier="mt-suggestion">' in (
        written.decode()
    )


@pytest.mark.parametrize("number", [0, 1])
def test_forms_of_a_plural_share_a_mark(number: int) -> None:
    """The note is that of the worse form, and a form that is filled marks its entry."""
    head = 'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=n!=1;\\n"\n\n'
    text = 'msgid "%d dog"\nmsgid_plural "%d dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    document = read_document(f"{head}{text}".encode(), "a.po")
    texts = [Translation(f"%d {name}", (), 0.0, parts=(PART,)) for name in ("H", "Hs")]
    bad = replace(texts[number], parts=(PART._replace(quality=0.5),))
    texts[number] = bad
    for _ in range(2):
        assert document.render(texts).decode() == head + (
            '# Machine translation: quality 0.50\n#, fuzzy\nmsgid "%d dog"\n'
            'msgid_plural "%d dogs"\nmsgstr[0] "%d H"\nmsgstr[1] "%d Hs"\n'
        )
    half = text.replace('[0] ""', '[0] "%d H"')
    written = read_document(f"{head}{half}".encode(), "a.po").render(texts[1:])
    assert b"\n#, fuzzy\n" in written
