"""Sheets give the pairs that their cells show; what cannot be read is refused in a sentence."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from helpers.spreadsheets import write_ods, write_xlsx

from regard.common.errors import DataError
from regard.data import spreadsheets
from regard.data.corpus import Corpus, read_corpus
from regard.data.file_formats import PairFiles, languages_of_pairs

pytest.importorskip(
    "python_calamine",
    reason="python-calamine is not installed: pip install 'regard[tables]'",
)
ROWS = [
    ["key", "English", "hornjoserbšćina"],
    ["a.b", "A dog.", "Pos."],
    ["a.c", "x\ny", "z"],
]
PAIRS = [(2, "A dog.", "Pos."), (3, "x y", "z")]


def _pairs(corpus: Corpus) -> list[tuple[int, str, str]]:
    return [(pair.line, pair.source, pair.target) for pair in corpus]


@pytest.mark.parametrize("name", ["a.xlsx", "a.ods"])
def test_a_sheet_gives_its_pairs(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "a.ods":
        write_ods(path, ROWS)
    else:
        write_xlsx(path, {"T": ROWS})
    corpus = read_corpus(PairFiles(pairs=path))
    assert _pairs(corpus) == PAIRS
    assert languages_of_pairs(PairFiles(pairs=path)).pair == ("en", "hsb")
    streamed = read_corpus(PairFiles(pairs=path), on_disk=True)
    assert (tuple(streamed), streamed.report) == (corpus.pairs, corpus.report)


def test_the_first_sheet_with_pairs_is_read_unless_another_is_named(
    tmp_path: Path,
) -> None:
    other = [["de", "en"], ["Ein Hund.", "A dog."]]
    sheets = {"About": [["a note"], ["of", "two"]], "Words": ROWS, "More words": other}
    path = write_xlsx(tmp_path / "a.xlsx", sheets)
    corpus = read_corpus(PairFiles(pairs=path))
    assert _pairs(corpus) == PAIRS
    assert (
        f"{path}: the sheet Words was read; there is also About, More words"
        in corpus.report.notes[0]
    )
    named = PairFiles(pairs=f"{path}#More words")
    assert named.paths == {"pairs": path}
    assert read_corpus(named).sources == ["Ein Hund."]
    with pytest.raises(DataError, match="has no sheet 'Other'; there are About, Words"):
        read_corpus(PairFiles(pairs=f"{path}#Other"))
    with pytest.raises(DataError, match="has no two columns"):
        read_corpus(PairFiles(pairs=write_xlsx(tmp_path / "b.xlsx", {"A": [["a"]]})))


def test_numbers_formulas_and_merged_cells_are_what_they_show(tmp_path: Path) -> None:
    rows = [
        ["My words"],
        [],
        ["English", "Welsh", "id"],
        ["<v>12</v>", "<f>A1</f><v>2.5</v>", "<v>1</v>"],
        ["a", "<f>A1&amp;A2</f>", "<v>2</v>"],
        ["b", "c", "<v>3</v>"],
    ]
    path = write_xlsx(tmp_path / "a.xlsx", {"A": rows}, merged="A6:A7")
    corpus = read_corpus(PairFiles(pairs=path))
    assert _pairs(corpus) == [(4, "12", "2.5"), (6, "b", "c")]
    assert corpus.report.dropped["empty"].lines == (5,)
    report = "\n".join(corpus.report.notes)
    for note in (
        "line 3 names the columns (English, Welsh)",
        "1 formula has no stored value (B5)",
        "cells are merged (row 6)",
        "columns 1 and 2 of 3 were read, such as '12' ↔ '2.5'",
    ):
        assert note in report


def test_a_cell_of_a_megabyte_is_dropped(tmp_path: Path) -> None:
    path = write_xlsx(tmp_path / "a.xlsx", {"A": [*ROWS, ["a.d", "x" * 10**6, "y"]]})
    corpus = read_corpus(PairFiles(pairs=path))
    assert _pairs(corpus) == PAIRS
    assert corpus.report.dropped["too long"].lines == (4,)


def test_what_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write_xlsx(tmp_path / "whole.xlsx", {"A": ROWS})
    far = write_xlsx(tmp_path / "near.xlsx", {"A": ROWS})
    with (
        zipfile.ZipFile(far) as near,
        zipfile.ZipFile(tmp_path / "far.xlsx", "w") as archive,
    ):
        for name in near.namelist():
            archive.writestr(name, near.read(name).replace(b'"C3"', b'"XFD1048576"'))
    for name, data in (
        ("cut.xlsx", whole.read_bytes()[:500]),
        ("none.ods", b"PK\3\4" + b"x" * 99),
        ("text.xls", b"a\tb\n"),
        ("secret.xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000)),
    ):
        (tmp_path / name).write_bytes(data)
    for name, message in (
        ("far.xlsx", "far.xlsx#A: has cells up to column XFD and row 1,048,576"),
        ("cut.xlsx", "damaged, or no spreadsheet"),
        ("none.ods", "damaged, or no spreadsheet"),
        ("text.xls", "damaged, or no spreadsheet"),
        ("secret.xlsx", "protected by a password; save it without one"),
        ("absent.xlsx", "no such file"),
    ):
        with pytest.raises(DataError) as caught:
            read_corpus(PairFiles(pairs=tmp_path / name))
        assert message in str(caught.value)
        assert len(caught.value.causes) == 1
    monkeypatch.setattr(spreadsheets, "MAX_BYTES", 1000)
    with pytest.raises(DataError, match="when it is unpacked"):
        read_corpus(PairFiles(pairs=whole))


@pytest.mark.parametrize("is_filled", [True, False])
def test_repeated_cells_of_ods_are_bounded(tmp_path: Path, is_filled: bool) -> None:
    write_ods(tmp_path / "a.ods", ROWS)
    cell = "table:table-cell table:number-columns-repeated='16384'"
    cells = (
        f"<{cell}><text:p>x</text:p></table:table-cell>" if is_filled else f"<{cell}/>"
    )
    row = "<table:table-row table:number-rows-repeated='1048000'>"
    end = "</table:table>"
    path = tmp_path / "b.ods"
    with (
        zipfile.ZipFile(tmp_path / "a.ods") as near,
        zipfile.ZipFile(path, "w") as archive,
    ):
        for name in near.namelist():
            text = near.read(name).decode()
            text = text.replace(end, f"{row}{cells}</table:table-row>{end}")
            archive.writestr(name, text)
    if not is_filled:
        assert _pairs(read_corpus(PairFiles(pairs=path))) == PAIRS
        return
    with pytest.raises(DataError, match="up to column 16,384 and row 1,048,003"):
        read_corpus(PairFiles(pairs=path))
