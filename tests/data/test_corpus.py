"""Every format of sentence pairs gives the same pairs; every broken file is reported in one
sentence with its line.
"""

import gzip
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.text_table import rows

from regard.common.errors import ConfigurationError, DataError, RegardError, UsageError
from regard.data.corpus import read_corpus
from regard.data.corpus_facts import Overlap
from regard.data.corpus_settings import CorpusSettings
from regard.data.file_formats import PairFiles
from regard.data.pair_filters import Filters
from regard.data.text import clean, read_lines, write_lines

GERMAN = ["Ein Hund läuft.", "Zwei Männer reden.", "Ein roter Ball."]
KOREAN = ["개가 달린다.", "두 남자가 이야기한다.", "빨간 공 하나."]


def cause(call: Callable[[], object]) -> str:
    """Return the one cause of the error that `call` raises."""
    with pytest.raises(RegardError) as caught:
        call()

    (only,) = caught.value.causes
    return only


# --- lines


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("  a \t b\u00a0c  ", "a b c"),
        ("a\u3000b\u2028c\u0085d\x1ce", "a b c d e"),
        ("zero\u200bwidth, \ufeffso\u00adft", "zerowidth, soft"),
        ("\u200d\u200c\ufe0f", "\u200d\u200c\ufe0f"),
        ("\u200b\u2060", ""),
        (unicodedata.normalize("NFD", "한국어 größe"), "한국어 größe"),
        ("half \ud83d pair", "half \ufffd pair"),
    ],
)
def test_clean_normalises_spaces_and_characters(raw: str, expected: str) -> None:
    assert clean(raw) == expected
    assert clean(expected) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("a\nb\n", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\r\r\nb\rc\n", ["a\r", "b\rc"]),
        ("\ufeffa\n\n\nb", ["a", "", "", "b"]),
        ("a\u2028b\u0085c\x0bd\x0ce\n", ["a\u2028b\u0085c\x0bd\x0ce"]),
    ],
)
def test_lines_end_at_line_feeds_only(
    tmp_path: Path, data: str, expected: list[str]
) -> None:
    (tmp_path / "plain").write_bytes(data.encode())
    (tmp_path / "zipped.gz").write_bytes(gzip.compress(data.encode(), mtime=0))

    assert read_lines(tmp_path / "plain") == expected
    assert read_lines(str(tmp_path / "zipped.gz")) == expected


@pytest.mark.parametrize("name", ["out.txt", "out.gz"])
def test_written_lines_can_be_read_back(tmp_path: Path, name: str) -> None:
    write_lines(tmp_path / name, ["old"])
    write_lines(tmp_path / name, KOREAN)

    assert read_lines(tmp_path / name) == KOREAN
    for path in (tmp_path, tmp_path / "none" / "a"):
        assert "cannot be written" in cause(lambda path=path: write_lines(path, ["a"]))
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("empty", b"", "the file is empty"),
        ("mark", b"\xef\xbb\xbf", "the file is empty"),
        (
            "latin",
            b"ok\nsch\xf6n\n",
            r"line 2 is not UTF-8.*0xF6.*byte number 4.*as UTF-8",
        ),
        ("mark16", b"\xff\xfea\xd8", "looks like UTF-16"),
        ("nul", b"ok\nok\na\0b\n", "line 3 holds a NUL character.*remove it"),
        ("text.gz", b"not gzip\n", "damaged, or not gzip"),
        ("cut.gz", gzip.compress(b"abc" * 100, mtime=0)[:-9], "damaged, or not gzip"),
        ("a", gzip.compress(b"a\n", mtime=0), "let its name end in .gz"),
    ],
)
def test_a_broken_file_is_explained(
    tmp_path: Path, name: str, data: bytes, expected: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=f"{name}: .*{expected}") as caught:
        read_lines(tmp_path / name)
    assert len(caught.value.causes) == 1


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "train.de").write_text("a\n")
    for name, expected in (
        ("trian.de", f"did you mean {tmp_path / 'train.de'}?"),
        ("x", "no file of a similar name"),
        ("none/train.de", "nor a folder"),
        ("", "is a folder"),
    ):
        path = tmp_path / name
        assert expected in cause(lambda path=path: read_lines(path))


# --- pairs


def write_two_files(folder: Path, sources: list[str], targets: list[str]) -> PairFiles:
    write_lines(folder / "a", sources)
    write_lines(folder / "b", targets)
    return PairFiles(str(folder / "a"), str(folder / "b"))


def tsv_lines(sources: list[str], targets: list[str]) -> list[str]:
    return [*map("\t".join, zip(sources, targets, strict=True))]


def jsonl_lines(sources: list[str], targets: list[str]) -> list[str]:
    pairs = zip(sources, targets, strict=True)
    return [json.dumps({"source": s, "target": t, "id": 7}) for s, t in pairs]


@pytest.mark.parametrize(
    ("name", "form"),
    [("a.tsv", tsv_lines), ("a.txt.gz", tsv_lines), ("a.jsonl", jsonl_lines)],
)
def test_one_file_gives_the_same_pairs_as_two(
    tmp_path: Path, name: str, form: Any
) -> None:
    two = read_corpus(write_two_files(tmp_path, GERMAN, KOREAN))
    write_lines(tmp_path / name, form(GERMAN, KOREAN))

    assert read_corpus(PairFiles(pairs=tmp_path / name)).pairs == two.pairs
    assert two.sources == GERMAN
    assert two.targets == KOREAN
    assert [pair.line for pair in two.pairs] == [1, 2, 3]


def test_marks_spaces_and_decomposed_characters_change_no_pair(tmp_path: Path) -> None:
    files = write_two_files(tmp_path, GERMAN, KOREAN)
    expected = read_corpus(files)
    text = "".join(line.replace(" ", "\u00a0 ") + " \r\n" for line in KOREAN)
    decomposed = unicodedata.normalize("NFD", text)
    (tmp_path / "b").write_text(decomposed, encoding="utf-8-sig", newline="")
    corpus = read_corpus(files)

    assert corpus.pairs == expected.pairs

    byte_order_mark, carriage_returns = corpus.report.notes
    assert "byte-order mark before line 1" in byte_order_mark
    assert "3 lines end in CR LF" in carriage_returns


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("a.tsv", ["a\tb", "a b", "a\tb\tc"], "2 lines do not hold exactly one tab"),
        ("a.tsv", ["a\tb", *["a"] * 21], ", 19, 20, 21 …)"),
        ("a.tsv", ["a"] * 21, "in 21 rows nothing parts two"),
        ("a.jsonl", ["{", "[" * 100_000], "2 lines are not JSON"),
        (
            "a.jsonl",
            ['{"source": "a"}', '{"source": "a", "target": 3}', "3"],
            "3 lines lack a text under the key source",
        ),
        ("a.jsonl", [r'{"source": "a", "target": "\u0000"}'], "1 line holds a NUL"),
    ],
)
def test_a_broken_pair_is_explained(
    tmp_path: Path, name: str, lines: list[str], expected: str
) -> None:
    write_lines(tmp_path / name, lines)
    assert expected in cause(lambda: read_corpus(PairFiles(pairs=tmp_path / name)))


def test_unusable_pairs_are_dropped_and_reported(tmp_path: Path) -> None:
    long = "x" * 20_000
    sources = ["Ein Hund.", "", "a", "w " * 201, long, "Ein Hund.", "Ein Hund.", "  "]
    targets = ["A dog.", "b", "c" * 40, "w " * 201, long, "A dog.", "The dog.", ""]
    files = write_two_files(tmp_path, sources, targets)
    corpus = read_corpus(files, Filters(200, 9))

    assert [pair.line for pair in corpus.pairs] == [1, 6, 7]

    report = corpus.report
    assert (report.read, report.kept, report.duplicates) == (8, 3, 1)

    counts = {reason: dropped.count for reason, dropped in report.dropped.items()}
    assert counts == {"empty": 2, "odd length ratio": 1, "too long": 2}
    assert all(len(text) <= 60 for _, text in report.dropped["too long"].examples)

    printed = "\n".join(report.lines())
    assert printed.startswith("train: 8 pairs read")
    assert "\n  dropped, too long: 2 (lines 4, 5)\n" in printed
    assert "duplicates kept: 1" in printed

    unique = read_corpus(files, Filters(200, 9, drop_duplicates=True))
    assert [pair.line for pair in unique.pairs] == [1, 7]
    assert unique.report.dropped["duplicate"].count == 1
    assert unique.report.duplicates == 0

    evaluation = read_corpus(files, name="valid")
    assert [pair.line for pair in evaluation.pairs] == [1, 3, 4, 5, 6, 7]
    assert [*evaluation.report.dropped] == ["empty"]


def test_a_corpus_without_usable_pairs_is_refused(tmp_path: Path) -> None:
    files = write_two_files(tmp_path, ["", "a"], ["a", ""])
    assert "none of the 2 pairs can be used (2 empty)" in cause(
        lambda: read_corpus(files)
    )
    with pytest.raises(UsageError):
        read_corpus(PairFiles(source="a"))


def test_overlap_counts_pairs_sources_and_targets(tmp_path: Path) -> None:
    train = read_corpus(write_two_files(tmp_path, ["a", "b", "c"], ["A", "B", "C"]))
    valid = read_corpus(write_two_files(tmp_path, ["x", "a", "b"], ["X", "A", "Y"]))
    disjoint = read_corpus(write_two_files(tmp_path, ["x"], ["X"]))
    overlaps = Overlap(valid), Overlap(disjoint)
    for overlap in overlaps:
        overlap.update(train.pairs)

    assert overlaps[0].lines("valid") == [
        "valid: 1 of 3 pairs is also in train (line 2)",
        "valid: 2 of 3 sources are also in train (lines 2, 3)",
        "valid: 1 of 3 targets is also in train (line 2)",
    ]

    (line,) = overlaps[1].lines("test")
    assert line == "test: none of its 1 pair shares a side with train"


# --- settings


@pytest.mark.parametrize(
    ("values", "expected"),
    rows("""
        {} | no training pairs; give source and target, or pairs
        {"source": "a"} | source is given without target; give source and target
        {"source": "a", "target": "b", "pairs": "c"} | source and target exclude pairs
        {"pairs": "c", "valid_target": "a"} | valid_target is given without valid_source
        {"pairs": "c", "valid_pairs": "b", "valid_target": "a"} | exclude valid_pairs
        {"mix": [{"pairs": "d", "weight": 0.0}]} | mix 1: weight 0 is not a positive number
        {"pairs": "c", "mix": [{"source": "d"}]} | mix 1: source is given without target
        {"pairs": "c", "mix": [{"pairs": "d", "name": "train"}]} | two corpora are called train
        {"mix": [{"pairs": "d", "name": "valid"}]} | no training corpus can be called valid
        {"mix": [{"pairs": "d", "name": "../d"}]} | '../d' cannot name a folder
        {"pairs": "c", "max_lenght": 3} | did you mean 'max_length'?
    """),
)
def test_contradicting_settings_are_refused(values: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        CorpusSettings.parse(json.loads(values), "train.toml")
    assert expected in str(caught.value)
