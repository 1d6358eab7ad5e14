"""TSV and CSV as programs write them give their pairs; what an author wrote stays as it is."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.common.errors import DataError
from regard.data.corpus import PairFiles, read_corpus
from regard.data.delimited import HEAD
from regard.data.pair_filters import Filters
from regard.data.streamed_corpus import scan

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
    streamed = scan(PairFiles(pairs=path))
    assert (tuple(streamed), streamed.report) == (corpus.pairs, corpus.report)
    return [(pair.line, pair.source, pair.target) for pair in corpus.pairs], "\n".join(
        corpus.report.lines()
    )


TABLES: dict[str, tuple[str, list[str], Rows, list[str]]] = {
    "quotes are doubled": (
        "a.tsv",
        ['"He said ""hi"""\t"Er sagte ""hi"""', '"a ""b"""\tc d', "e, f\tg", '""""\tx'],
        [
            (1, 'He said "hi"', 'Er sagte "hi"'),
            (2, 'a "b"', "c d"),
            (3, "e, f", "g"),
            (4, '"', "x"),
        ],
        [QUOTES],
    ),
    "all fields are quoted": (
        "a.tsv.gz",
        ['"source"\t"target"\t"id"', '"A dog."\t"Ein Hund."\t7', '"Two, or"\t""\t8'],
        [(2, "A dog.", "Ein Hund.")],
        ["2 pairs read", QUOTES, f"{NAMES} (source, target)", "columns 1 and 2 of 3 were read"],
    ),
    "commas are quoted": (
        "a.tsv",
        ['"Yes, I do."\t"Ja, das."', "No.\tNein.", 'Bye.\t"Na, dann."'],
        [(1, "Yes, I do.", "Ja, das."), (2, "No.", "Nein."), (3, "Bye.", "Na, dann.")],
        [QUOTES],
    ),
    "line breaks and tabs are quoted": (
        "a.txt",
        ["a b\tc", '"two', 'lines"\t"zwei', 'Zeilen"', "", '"a\ttab"\tTab', "d\te"],
        [(1, "a b", "c"), (2, "two lines", "zwei Zeilen"), (6, "a tab", "Tab"), (7, "d", "e")],
        ["5 pairs read", QUOTES, "dropped, empty: 1 (line 5)"],
    ),
    "quotes come late": (
        "a.tsv",
        [*SOME, '"a ""b"""\tc', '"two', 'lines"\td'],
        [(HEAD + 10, 'a "b"', "c"), (HEAD + 11, "two lines", "d")],
        [QUOTES],
    ),
    "quotes of an author": (
        "a.tsv",
        [
            '"Stop!" he said.\t„Halt!“',
            'A 5" nail\tx',
            '"unclosed\ty',
            '"Stop!"\t"Halt!"',
            '"a ""b"""\tz',
            'u\tv"',
        ],
        [
            (1, '"Stop!" he said.', "„Halt!“"),
            (2, 'A 5" nail', "x"),
            (3, '"unclosed', "y"),
            (4, '"Stop!"', '"Halt!"'),
            (5, '"a ""b"""', "z"),
            (6, "u", 'v"'),
        ],
        ["6 pairs read"],
    ),
    "a quotation over two lines": (
        "a.tsv",
        ['"I came.\t„Ich kam.', 'I saw."\tIch sah.“', '"Ah!"\tx', "y\tz"],
        [
            (1, '"I came.', "„Ich kam."),
            (2, 'I saw."', "Ich sah.“"),
            (3, '"Ah!"', "x"),
            (4, "y", "z"),
        ],
        [],
    ),
    "quotes of an author come late": (
        "a.tsv",
        [*SOME, '"Stop!"\t"Halt!"', '"a ""b"""\tc'],
        [(HEAD + 10, '"Stop!"', '"Halt!"'), (HEAD + 11, '"a ""b"""', "c")],
        [],
    ),
    "codes": (
        "a.tsv",
        ["EN\tsentence_de", "a b\tc"],
        [(2, "a b", "c")],
        [f"{NAMES} (EN, sentence_de)"],
    ),
    "languages": ("a.tsv", ["English sentence\tGerman", "it\tes"], [(2, "it", "es")], [NAMES]),
    "codes that are words": (
        "a.tsv",
        ["it\tes", "is\tist", "no\tne"],
        [(1, "it", "es"), (2, "is", "ist"), (3, "no", "ne")],
        [],
    ),
    "names that are words": (
        "a.tsv",
        ["text\tText", "source\tQuelle"],
        [(1, "text", "Text"), (2, "source", "Quelle")],
        [],
    ),
    "names later on": (
        "a.tsv",
        ["a\tb", "source\ttarget"],
        [(1, "a", "b"), (2, "source", "target")],
        [],
    ),
    "more columns": (
        "deu.txt",
        ["Go.\tGeh.\tCC-BY 2.0, a\tx", "Hi.\tHallo.\tCC-BY 2.0, b\ty"],
        [(1, "Go.", "Geh."), (2, "Hi.", "Hallo.")],
        ["columns 1 and 2 of 4 were read"],
    ),
    "numbers between": (
        "a.tsv",
        ["1276\tGo.\t77\tGeh.", "1277\tHi.\t78\tHallo."],
        [(1, "Go.", "Geh."), (2, "Hi.", "Hallo.")],
        ["columns 2 and 4 of 4 were read"],
    ),
    "commas": (
        "a.csv",
        ["source,target", '"Hello, you","a ""b"""', 'A 5" nail\u2028x,Nagel', '"two', '",zwei'],
        [(2, "Hello, you", 'a "b"'), (3, 'A 5" nail x', "Nagel"), (4, "two", "zwei")],
        ["3 pairs read", NAMES],
    ),
    "semicolons": (
        "a.csv.gz",
        ["Hello, you;Hallo, du", 'Bye;"Na; dann"'],
        [(1, "Hello, you", "Hallo, du"), (2, "Bye", "Na; dann")],
        [],
    ),
    "an index": (
        "a.csv",
        [",en,de", "0,A dog.,Ein Hund.", '1,"No, it",Nein'],
        [(2, "A dog.", "Ein Hund."), (3, "No, it", "Nein")],
        [f"{NAMES} (en, de)", "columns 2 and 3 of 3 were read"],
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_pairs_of_a_table_are_read(tmp_path: Path, kind: str) -> None:
    name, lines, expected, notes = TABLES[kind]
    rows, report = _read(tmp_path / name, lines)
    assert rows[-len(expected) :] == expected
    assert len(rows) == len(expected) + (len(SOME) if lines[:9] == SOME[:9] else 0)
    assert [note for note in notes if note not in report] == []
    assert [
        note
        for note in (QUOTES, NAMES, "were read")
        if note in report and note not in " ".join(notes)
    ] == []


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        (
            "a.tsv",
            ["a\tb\tc", "a\tb\tc", "a\tb"],
            "1 line does not hold exactly 3 fields; correct them, or give two files (line 3)",
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
            f"quoted as a whole or not at all; correct them, or give two files (line {HEAD + 2})",
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
    assert warning in read_corpus(PairFiles(path, path), Filters()).report.lines()
    _, report = _read(tmp_path / "a.tsv", ["OK\tOK", "a\tb"])
    assert "warning" not in report
