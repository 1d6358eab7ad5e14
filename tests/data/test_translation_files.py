"""TMX, XLIFF and PO give their pairs, with their languages; hostile XML is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.common.errors import DataError
from regard.data.corpus import read_corpus
from regard.data.file_formats import PairFiles, flags_of_pairs, languages_of_pairs
from regard.data.languages import Languages

TMX = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en" adminlang="en"/><body>
<tu><note>x</note><tuv xml:lang="HSB"><seg>Dom</seg></tuv><tuv xml:lang="EN">
<seg>a <bpt i="1">&lt;b&gt;</bpt>ho<hi>use</hi> &amp; more</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>x</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>dog</seg></tuv><tuv xml:lang="hsb"><seg>pos</seg></tuv></tu>
</body></tmx>
"""
XLIFF = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en" target-language="hsb"><body>
<trans-unit id="1"><source>a <g id="1">house</g><x id="2"/> &amp; more</source><target>Dom</target>
<alt-trans><source>no</source><target>no</target></alt-trans></trans-unit>
<trans-unit id="2"><source>x</source></trans-unit>
<trans-unit id="3"><source>dog</source><target>pos</target></trans-unit>
</body></file></xliff>
"""
XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="hsb"
 xmlns="urn:oasis:names:tc:xliff:document:2.0"><file id="f"><unit id="1">
<originalData><data id="d">code</data></originalData>
<segment><source>a <pc id="1">house</pc> &amp; more</source><target>Dom</target></segment>
<segment><source>x</source></segment>
<segment><source>dog</source><target>pos</target></segment>
</unit></file></xliff>
"""
PO = r"""
msgid ""
msgstr "Language: hsb\nContent-Type: text/plain; charset=UTF-8\n"

#: a.c:7
msgctxt "menu"
msgid ""
"a \"house\""
"\n& more"
msgstr "Dom"

msgid "x"
msgstr ""
#, c-format, fuzzy
msgid "fuzzy"
msgstr "njewěste"

msgid "dog"
msgid_plural "dogs"
msgstr[0] "pos"
msgstr[1] "psa"
msgstr[2] "psy"

#~ msgid "old"
#~ msgstr "stare"
"""


@pytest.mark.parametrize(
    ("name", "text", "pairs"),
    [
        ("a.tmx", TMX, [(4, "a house & more", "Dom"), (7, "dog", "pos")]),
        ("a.xlf", XLIFF, [(3, "a house & more", "Dom"), (6, "dog", "pos")]),
        ("a.xliff", XLIFF_2, [(4, "a house & more", "Dom"), (6, "dog", "pos")]),
        (
            "a.po",
            PO,
            [(5, 'a "house" & more', "Dom"), (18, "dog", "pos"), (19, "dogs", "psy")],
        ),
    ],
)
def test_translation_files_give_their_pairs(
    tmp_path: Path, name: str, text: str, pairs: list[tuple[int, str, str]]
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    corpus = read_corpus(PairFiles(pairs=path))
    assert [(pair.line, pair.source, pair.target) for pair in corpus] == pairs
    source = "" if name == "a.po" else "en"
    assert languages_of_pairs(PairFiles(pairs=path)).pair == (source, "hsb")
    assert corpus.report.dropped["empty"].count == 1
    assert "were read, such as " in corpus.report.notes[-1]
    streamed = read_corpus(PairFiles(pairs=path), on_disk=True)
    assert (tuple(streamed), streamed.report) == (corpus.pairs, corpus.report)


def test_a_tmx_is_read_in_the_direction_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_bytes(
        TMX.replace('version="1.0"', 'version="1.0" encoding="UTF-16"').encode("utf-16")
    )
    files = PairFiles(pairs=path, languages=Languages(source="hsb", target="en"))
    assert read_corpus(files).sources == ["Dom", "pos"]


def test_a_fuzzy_entry_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_text(PO, encoding="utf-8")
    notes = read_corpus(PairFiles(pairs=path)).report.notes
    beginning = f"{path}: 1 fuzzy entry was left out (`msgattrib"
    assert any(note.startswith(beginning) for note in notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            TMX.replace('SYSTEM "tmx14.dtd"', '[<!ENTITY a "aa"><!ENTITY b "&a;&a;">]'),
            "declares the entity 'a'",
        ),
        (
            TMX.replace(
                'SYSTEM "tmx14.dtd"', '[<!ENTITY a SYSTEM "file:///etc/passwd">]'
            ),
            "declares the entity",
        ),
        (TMX[:300], "damaged, or not XML"),
        ("<tmx><body/></tmx>", "has no two columns"),
        ("", "damaged, or not XML"),
    ],
)
def test_xml_that_cannot_be_read_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_corpus(PairFiles(pairs=path))


def test_a_long_message_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    lines = ('"' + "x" * 99 + '"\n') * 9999
    path.write_text(PO.replace('"Dom"\n', f'"Dom"\n{lines}'), encoding="utf-8")
    assert read_corpus(PairFiles(pairs=path)).report.dropped["too long"].count == 1


def test_a_long_segment_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.tmx"
    path.write_text(TMX.replace("Dom", "x" * 10**6), encoding="utf-8")
    assert read_corpus(PairFiles(pairs=path)).report.dropped["too long"].lines == (4,)


FLAGGED = """# A header.
msgid ""
msgstr "Language: de\\n"

#: a.c:7
#, c-format
#, no-wrap
msgid "%d dog"
msgid_plural "%d dogs"
msgstr[0] "%d Hund"
msgstr[1] "%d Hunde"

msgid "cat"
msgstr "Katze"
#, python-brace-format
msgid "{x}"
msgstr "{x}"
"""


def test_the_flags_of_a_catalogue_stand_at_the_lines_of_its_pairs(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.po"
    path.write_text(FLAGGED, encoding="utf-8")
    files = PairFiles(pairs=path)
    lines = {pair.source: pair.line for pair in read_corpus(files)}
    assert flags_of_pairs(files) == {
        lines["%d dog"]: ["c-format", "no-wrap"],
        lines["%d dogs"]: ["c-format", "no-wrap"],
        lines["{x}"]: ["python-brace-format"],
    }
    table = tmp_path / "a.tsv"
    table.write_text("a\tb\n", encoding="utf-8")
    assert flags_of_pairs(PairFiles(pairs=table)) == {}
    assert flags_of_pairs(PairFiles(table, table)) == {}
