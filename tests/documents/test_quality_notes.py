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
BROKEN = "broken: code or numbers are altered, or it is too long"
PART = TranslatedPart("Two dogs", "Zwei Hunde", -0.1, quality=0.876)
GOOD = Translation("Zwei Hunde", (), -0.1, parts=(PART,))


@pytest.mark.parametrize(
    ("text", "name", "good", "bad"),
    [
        (
            PO,
            "a.po",
            "# Machine translation: quality 0.88\n",
            f": {BROKEN}\n#, fuzzy\n",
        ),
        (
            OLD,
            "a.xlf",
            '\n<note from="Regard" annotates="target">quality 0.88</note>\n',
            f'annotates="target">{BROKEN}</note>\n',
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
    broken = read_document(again, name).render([replace(GOOD, broken=True)]).decode()
    assert bad in broken
    assert good not in broken
