"""TSV and CSV as programs write them give their pairs; what an author wrote stays as it is."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.common.errors import DataError
from regard.data.corpus import read_corpus
from regard.data.delimited import HEAD
from regard.data.file_formats import PairFiles
from regard.data.pair_filters import Filters

QUOTES = "fields stood in quotation marks"
NAMES = "line 1 names the columns"
SOME = [f"A dog {i}.\tEin Hund {i}." for i in range(HEAD + 9)]
"""More lines than the form of a file is inferred from."""
Rows = list[tuple[int, str, str]]


def _read(path: Path, lines: list[str]) -> tuple[Rows, str]:
    """Return line number and sides of each pair, and the report."""
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    corpus = read_corpus(PairFiles(pairs=path))
    streamed = read_corpus(PairFiles(pairs=path), on_disk=True)
    assert (tuple(streamed), streamed.report) == (corpus.pairs, corpus.report)
    return [(pair.line, pair.source, pair.target) for pair in corpus.pairs], "\n".join(
        corpus.report.lines()
    )


TABLES = r'''
# quotes are doubled
a.tsv
"He said ""hi"""⇥"Er sagte ""hi"""
"a ""b"""⇥c d
e, f⇥g
""""⇥x
pairs:
1 | He said "hi" | Er sagte "hi"
2 | a "b" | c d
3 | e, f | g
4 | " | x
notes: fields stood in quotation marks

# all fields are quoted
a.tsv.gz
"source"⇥"target"⇥"id"
"A dog."⇥"Ein Hund."⇥7
"Two, or"⇥""⇥8
pairs:
2 | A dog. | Ein Hund.
notes: 2 pairs read; fields stood in quotation marks; line 1 names the columns (source, target); columns 1 and 2 of 3 were read

# line breaks and tabs are quoted
a.txt
a b⇥c
"two
lines"⇥"zwei
Zeilen"
∅
"a⇥tab"⇥Tab
d⇥e
pairs:
1 | a b | c
2 | two lines | zwei Zeilen
6 | a tab | Tab
7 | d | e
notes: 5 pairs read; fields stood in quotation marks; dropped, empty: 1 (line 5)

# quotes come late
a.tsv  late
"a ""b"""⇥c
"two
lines"⇥d
pairs:
1 | a "b" | c
2 | two lines | d
notes: fields stood in quotation marks

# quotes of an author
a.tsv
"Stop!" he said.⇥„Halt!“
A 5" nail⇥x
"unclosed⇥y
"Stop!"⇥"Halt!"
"a ""b"""⇥z
u⇥v"
pairs:
1 | "Stop!" he said. | „Halt!“
2 | A 5" nail | x
3 | "unclosed | y
4 | "Stop!" | "Halt!"
5 | "a ""b""" | z
6 | u | v"
notes: 6 pairs read

# quotes of an author come late
a.tsv  late
"Stop!"⇥"Halt!"
"a ""b"""⇥c
pairs:
1 | "Stop!" | "Halt!"
2 | "a ""b""" | c

# codes
a.tsv
EN⇥sentence_de
a b⇥c
pairs:
2 | a b | c
notes: line 1 names the columns (EN, sentence_de)

# languages
a.tsv
English sentence⇥German
it⇥es
pairs:
2 | it | es
notes: line 1 names the columns

# codes that are words
a.tsv
it⇥es
is⇥ist
no⇥ne
pairs:
1 | it | es
2 | is | ist
3 | no | ne

# names that are words
a.tsv
text⇥Text
source⇥Quelle
pairs:
1 | text | Text
2 | source | Quelle

# more columns
deu.txt
Go.⇥Geh.⇥CC-BY 2.0, a⇥x
Hi.⇥Hallo.⇥CC-BY 2.0, b⇥y
pairs:
1 | Go. | Geh.
2 | Hi. | Hallo.
notes: columns 1 and 2 of 4 were read

# numbers between
a.tsv
1276⇥Go.⇥77⇥Geh.
1277⇥Hi.⇥78⇥Hallo.
pairs:
1 | Go. | Geh.
2 | Hi. | Hallo.
notes: columns 2 and 4 of 4 were read

# commas
a.csv
source,target
"Hello, you","a ""b"""
A 5" nail x,Nagel
"two
",zwei
pairs:
2 | Hello, you | a "b"
3 | A 5" nail x | Nagel
4 | two | zwei
notes: 3 pairs read; line 1 names the columns

# semicolons
a.csv.gz
Hello, you;Hallo, du
Bye;"Na; dann"
pairs:
1 | Hello, you | Hallo, du
2 | Bye | Na; dann

# empty fields at the end are missing, or too many
a.csv
key,en,hsb,comment
a.b,dog,pos
a.c,cat,kočka,animal
a.d,house,dom
a.e,tree,štom,,
a.f,town,město,
pairs:
2 | dog | pos
3 | cat | kočka
4 | house | dom
5 | tree | štom
6 | town | město
notes: line 1 names the columns (en, hsb); columns 2 and 3 of 4 were read, such as 'dog' ↔ 'pos'

# Excel names the delimiter
a.csv
sep=;
English;Upper Sorbian
a, b;c
d;e
pairs:
3 | a, b | c
4 | d | e
notes: line 2 names the columns (English, Upper Sorbian)

# semicolons in a file of another name
a.txt
gälisch;hornjoserbšćina
a b;c
d;e
"f
g";h
pairs:
2 | a b | c
3 | d | e
4 | f g | h
notes: line 1 names the columns (gälisch, hornjoserbšćina)

# an export of Anki
a.txt
#separator:tab
#html:true
#guid column:1
#tags column:4
x1⇥집<br>가정⇥<b>house</b>&nbsp;<div>home</div>⇥noun
x2⇥물 [sound:a.mp3]⇥"a ""cup"" of water"⇥noun
pairs:
5 | 집 가정 | house home
6 | 물 | a "cup" of water
notes: fields stood in quotation marks; columns 2 and 3 of 4 were read

# an index
a.csv
,en,de
0,A dog.,Ein Hund.
1,"No, it",Nein
pairs:
2 | A dog. | Ein Hund.
3 | No, it | Nein
notes: line 1 names the columns (en, de); columns 2 and 3 of 3 were read
'''
"""Files, the pairs that are read of each with their lines, and notes of the report. ⇥ is a tab and
∅ an empty line; before a file that is `late` stand so many lines that its form is known.
"""


@pytest.mark.parametrize("table", TABLES.strip().split("\n\n"))
def test_the_pairs_of_a_table_are_read(tmp_path: Path, table: str) -> None:
    content, _, expected = table.partition("\npairs:\n")
    _, name, *lines = content.replace("⇥", "\t").replace("∅", "").split("\n")
    before = SOME if name.endswith("late") else []
    pairs, _, notes = expected.partition("\nnotes: ")
    rows, report = _read(tmp_path / name.split()[0], [*before, *lines])
    found = [
        f"{line - len(before)} | {source} | {target}" for line, source, target in rows
    ]
    assert found[len(before) :] == pairs.split("\n")
    assert all(note in report for note in notes.split("; "))
    for note in (QUOTES, NAMES, "were read"):
        assert note in notes or note not in report


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        (
            "a.tsv",
            ["a\tb\tc", "a\tb\tc", "a\tb", "a"],
            "2 lines do not hold exactly 3 fields; correct the file, or give two files (lines 3, 4)",
        ),
        (
            "a.csv",
            ["a,b", '"a" b,c', "d", "e,f"],
            "2 lines do not hold exactly 2 fields, each quoted as a whole or not at all",
        ),
        ("a.csv", ["a,b", "c,d", '"e,f', *["g,h"] * 30_000], "(line 3)"),
        (
            "a.tsv",
            [*['"a ""b"""\tc'] * (HEAD + 1), '"d" e\tf'],
            f"quoted as a whole or not at all; correct the file, or give two files (line {HEAD + 2})",
        ),
    ],
)
def test_lines_that_do_not_fit_are_named(
    tmp_path: Path, name: str, lines: list[str], expected: str
) -> None:
    with pytest.raises(DataError, match="a\\.") as caught:
        _read(tmp_path / name, lines)
    assert expected in str(caught.value)


def test_equal_sides_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.en"
    path.write_text("".join(f"A dog {i}.\n" for i in range(300)))
    warning = "  warning: source and target are the same in 300 of 300 pairs; a model that learns from these copies its input"
    assert warning in read_corpus(PairFiles(path, path), Filters(200, 9)).report.lines()
    _, report = _read(tmp_path / "a.tsv", ["OK\tOK", "a\tb"])
    assert "warning" not in report
