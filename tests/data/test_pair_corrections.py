"""A table of suspect pairs that somebody has corrected puts the pairs of the corpus right."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from helpers.spreadsheets import write_xlsx

from regard.common.errors import DataError
from regard.data.checking.check import CheckReport, check_files
from regard.data.checking.suspects import Suspect
from regard.data.corpus import Corpus, read_corpora, read_corpus
from regard.data.corpus_settings import CorpusSettings
from regard.data.file_formats import PairFiles
from regard.data.pair_corrections import COLUMNS, Corrections

PAIRS = ("Go home.\tDźi domoj.", "Wait!\t", "Say no.\tPraj nÄ›.", "Bad\t#REF!")
SUSPECTS = (
    Suspect(2, "empty", "Wait!", ""),
    Suspect(3, "garbled", "Say no.", "Praj nÄ›.", "", ("Say no.", "Praj ně.")),
    Suspect(3, "numbers differ", "Say no.", "Praj nÄ›.", "1, 2"),
    Suspect(4, "spreadsheet error", "Bad", "#REF!"),
)
CORRECTED = {2: ("Wait!", 'Čakaj, "ty"; ně?'), 4: ("Bad", "Špatny")}


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(PAIRS) + "\n", encoding="utf-8")
    return path


def write_suspects(path: Path) -> list[list[str]]:
    """Write the table, and return its rows as Python's own reader sees them."""
    CheckReport(4, SUSPECTS).write(path)
    delimiter = "," if path.suffix == ".csv" else "\t"
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [*csv.reader(file, delimiter=delimiter)]


def save(path: Path, rows: list[list[str]], delimiter: str) -> None:
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_each_suspect_pair_has_a_row(tmp_path: Path, name: str) -> None:
    header, *rows = write_suspects(tmp_path / name)
    assert tuple(header) == COLUMNS
    assert rows == [
        ["2", "empty", "Wait!", "", "", "", ""],
        [
            "3",
            "garbled; numbers differ",
            "Say no.",
            "Praj nÄ›.",
            "1, 2",
            "Say no.",
            "Praj ně.",
        ],
        ["4", "spreadsheet error", "Bad", "#REF!", "", "", ""],
    ]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "semicolons.csv", "a.xlsx"])
def test_corrected_pairs_come_back(tmp_path: Path, pairs: Path, name: str) -> None:
    path = tmp_path / name
    written = path.with_suffix(".tsv" if path.suffix == ".xlsx" else path.suffix)
    header, *rows = write_suspects(written)
    for row in rows:
        row[5:] = CORRECTED.get(int(row[0]), row[5:])
    rows.reverse()
    if path.suffix == ".xlsx":
        write_xlsx(path, {"suspects": [header, *rows]})
    else:
        delimiter = {"a.tsv": "\t", "a.csv": ","}.get(name, ";")
        save(path, [header, *rows], delimiter)

    files = PairFiles(pairs=pairs, corrections=str(path))
    wanted = [
        (1, "Go home.", "Dźi domoj."),
        (2, *CORRECTED[2]),
        (3, "Say no.", "Praj ně."),
        (4, *CORRECTED[4]),
    ]
    for on_disk in (False, True):
        corpus = read_corpus(files, on_disk=on_disk)
        assert [(pair.line, pair.source, pair.target) for pair in corpus] == wanted
    # The files of settings, in a run.
    settings = CorpusSettings(pairs=str(pairs), corrections=str(path))
    assert settings.paths["train.corrections"] == path
    assert read_corpora(settings)["train"].targets == [row[2] for row in wanted]


def test_a_pair_that_was_corrected_is_no_longer_suspect(tmp_path: Path) -> None:
    lines = [f"word{n} and more\tsłowo{n} a wjace" for n in range(40)]
    lines[7] = "word7 and more\t#N/A"
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("\n".join(lines), encoding="utf-8")
    files = PairFiles(pairs=pairs)
    table = tmp_path / "suspects.csv"
    report = check_files(files)
    assert [suspect.line for suspect in report.suspects] == [8]
    report.write(table)

    text = table.read_text("utf-8-sig").replace("#N/A,,,", "#N/A,,word7,#N/A")
    table.write_text(text, encoding="utf-8")
    confirmed = check_files(PairFiles(pairs=pairs, corrections=str(table)))
    assert confirmed.suspects == ()
    assert not confirmed.is_dropped(8)


def corrected(tmp_path: Path, pairs: Path, rows: list[str]) -> Corpus:
    path = tmp_path / "suspects.tsv"
    header = "line\tsource\ttarget\tproposed source\tproposed target"
    path.write_text("\n".join([header, *rows]), encoding="utf-8")
    return read_corpus(PairFiles(pairs=pairs, corrections=str(path)))


def test_pairs_are_found_by_their_texts(tmp_path: Path, pairs: Path) -> None:
    rows = [
        "9\tGo home.\tDźi domoj.\tGo!\tDźi!",  # it stood elsewhere
        "2\tWait!\t\t\tČakaj!",  # only the side that was empty
        "7\tGone\tPreč\tGone.\tPreč.",
        "3\tSay no.\tPraj ně.\t\t",  # changed in the wrong column
    ]
    corpus = corrected(tmp_path, pairs, rows)
    assert [(p.line, p.source, p.target) for p in corpus] == [
        (1, "Go!", "Dźi!"),
        (2, "Wait!", "Čakaj!"),
        (3, "Say no.", "Praj nÄ›."),
        (4, "Bad", "#REF!"),
    ]
    assert corpus.reviewed == {1, 2}
    table = tmp_path / "suspects.tsv"
    assert corpus.report.notes[-3:] == (
        f"{table}: 2 pairs corrected",
        f"{table}: 1 correction not used, as no pair has these texts now (line 7)",
        f"{table}: source or target was changed (line 3), which corrects nothing: write into the "
        "columns proposed source and proposed target",
    )


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("x\ta\tb\tc\td", "wanted the number of a line, got 'x'"),
        ("1\ta\t\tc\t", "line 1 has a side that is empty"),
        ("1\ta\tb\tc\td", "none of the corrected pairs is there (line 1)"),
    ],
)
def test_corrections_of_other_pairs_are_refused(
    tmp_path: Path, pairs: Path, row: str, sentence: str
) -> None:
    with pytest.raises(DataError) as raised:
        corrected(tmp_path, pairs, [row])
    assert sentence in str(raised.value)
    assert "suspects.tsv" in str(raised.value)


def test_a_table_that_was_corrected_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    report = CheckReport(4, SUSPECTS)
    assert report.write(path) is None
    assert report.write(path) is None
    path.write_bytes(b"corrected")
    assert report.write(path) == tmp_path / "a-1.csv"
    path.write_bytes(b"again")
    assert report.write(path) == tmp_path / "a-2.csv"
    assert (tmp_path / "a-1.csv").read_bytes() == b"corrected"
    assert (tmp_path / "a-2.csv").read_bytes() == b"again"


def test_a_table_of_something_else_is_refused(tmp_path: Path, pairs: Path) -> None:
    with pytest.raises(DataError, match="wanted the columns line, source, target"):
        Corrections(str(pairs))
    with pytest.raises(ValueError, match="exclude alignments"):
        CorpusSettings(pairs=str(pairs), corrections=str(pairs), alignments=str(pairs))
