"""Every format of sentence pairs gives the same pairs; every broken file is reported in one
sentence with its line.
"""

import gzip
import json
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import tomli_w

from regard.common.errors import ConfigurationError, DataError, RegardError, UsageError
from regard.data.corpus import (
    Corpus,
    CorpusSettings,
    Filters,
    Overlap,
    Pair,
    PairFiles,
    read_corpora,
    read_corpus,
    texts_sha256,
)
from regard.data.text import clean, read_file, read_lines, write_lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GERMAN = ["Ein Hund läuft.", "Zwei Männer reden.", "Ein roter Ball."]
KOREAN = ["개가 달린다.", "두 남자가 이야기한다.", "빨간 공 하나."]


def cause(call: Callable[[], object]) -> str:
    """Return the one cause of the error that `call` raises."""
    with pytest.raises(RegardError) as caught:
        call()
    assert len(caught.value.causes) == 1
    return caught.value.causes[0]


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
        (" \n", ""),
    ],
)
def test_clean_normalises_spaces_and_characters(raw: str, expected: str) -> None:
    assert clean(raw) == expected
    assert clean(clean(raw)) == clean(raw)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\r\nb\rc\n", ["a\r", "b\rc"]),
        (b"\xef\xbb\xbfa\n", ["a"]),
        (b"\n", [""]),
        (b"a\n\n\n", ["a", "", ""]),
        ("a\u2028b\u0085c\x0bd\x0ce\n".encode(), ["a\u2028b\u0085c\x0bd\x0ce"]),
    ],
)
def test_lines_end_at_line_feeds_only(tmp_path: Path, data: bytes, expected: list[str]) -> None:
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "zipped.gz").write_bytes(gzip.compress(data, mtime=0))
    assert read_lines(tmp_path / "plain") == expected
    assert read_lines(str(tmp_path / "zipped.gz")) == expected


def test_removed_byte_order_marks_and_carriage_returns_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfa\r\nb\r\nc\n")
    byte_order_mark, carriage_returns = read_file(tmp_path / "a").notes
    assert "byte-order mark before line 1" in byte_order_mark
    assert "2 lines end in CR LF" in carriage_returns


@pytest.mark.parametrize("name", ["out.txt", "out.gz"])
def test_written_lines_can_be_read_back(tmp_path: Path, name: str) -> None:
    write_lines(tmp_path / name, ["old"])
    write_lines(tmp_path / name, KOREAN)
    assert read_lines(tmp_path / name) == KOREAN
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "cannot be written" in cause(lambda: write_lines(tmp_path / "folder", ["a"]))
    assert "cannot be written" in cause(lambda: write_lines(tmp_path / "none" / "a", ["a"]))
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("empty", b"", ["the file is empty"]),
        ("empty.gz", gzip.compress(b"", mtime=0), ["the file is empty"]),
        ("mark", b"\xef\xbb\xbf", ["the file is empty"]),
        (
            "latin",
            b"ok\nsch\xf6n\n",
            ["line 2 is not UTF-8", "0xF6", "byte number 4", "save the file as UTF-8"],
        ),
        ("cut", b"a\nb\xc3", ["line 2 is not UTF-8"]),
        ("utf16", "ab\n".encode("utf-16-le").replace(b"\0", b"\xd8"), ["line 1 is not UTF-8"]),
        ("mark16", b"\xff\xfea\xd8", ["looks like UTF-16"]),
        ("nul", b"ok\nok\na\0b\n", ["line 3 holds a NUL character", "remove it"]),
        ("text.gz", b"not gzip\n", ["damaged, or not gzip"]),
        ("cut.gz", gzip.compress(b"abc" * 100, mtime=0)[:-9], ["damaged, or not gzip"]),
        (
            "bad.gz",
            gzip.compress(b"abcdefgh", mtime=0)[:12] + b"\xff" * 20,
            ["damaged, or not gzip"],
        ),
    ],
)
def test_a_broken_file_is_explained(
    tmp_path: Path, name: str, data: bytes, expected: list[str]
) -> None:
    (tmp_path / name).write_bytes(data)
    message = cause(lambda: read_lines(tmp_path / name))
    assert message.startswith(str(tmp_path / name))
    for part in expected:
        assert part in message


def test_gzip_without_the_suffix_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(gzip.compress(b"a\n", mtime=0).replace(b"\0", b"\1"))
    assert "let its name end in .gz" in cause(lambda: read_lines(tmp_path / "a"))


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "train.de").write_text("a\n")
    assert f"did you mean {tmp_path / 'train.de'}?" in cause(
        lambda: read_lines(tmp_path / "trian.de")
    )
    assert "no file of a similar name" in cause(lambda: read_lines(tmp_path / "x"))
    assert "nor a folder" in cause(lambda: read_lines(tmp_path / "none" / "train.de"))
    assert "is a folder" in cause(lambda: read_lines(tmp_path))


# --- pairs


def write_two_files(folder: Path, sources: list[str], targets: list[str]) -> tuple[str, str]:
    write_lines(folder / "a", sources)
    write_lines(folder / "b", targets)
    return str(folder / "a"), str(folder / "b")


def tsv_lines(sources: list[str], targets: list[str]) -> list[str]:
    return [f"{source}\t{target}" for source, target in zip(sources, targets, strict=True)]


def read_pairs(
    source: str | Path | None = None,
    target: str | Path | None = None,
    pairs: str | Path | None = None,
    filters: Filters | None = None,
    name: str = "train",
) -> Corpus:
    return read_corpus(PairFiles(source, target, pairs), filters, name)


def read_all(settings: CorpusSettings) -> dict[str, Corpus]:
    train, evaluation = read_corpora(settings, read_corpus)
    return {**train, **evaluation}


def jsonl_lines(sources: list[str], targets: list[str]) -> list[str]:
    rows = zip(sources, targets, strict=True)
    return [json.dumps({"source": source, "target": target, "id": 7}) for source, target in rows]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "form"), [("a.tsv", tsv_lines), ("a.txt", tsv_lines), ("a.jsonl", jsonl_lines)]
)
def test_one_file_gives_the_same_pairs_as_two(
    tmp_path: Path, suffix: str, name: str, form: Callable[[list[str], list[str]], list[str]]
) -> None:
    two = read_pairs(*write_two_files(tmp_path, GERMAN, KOREAN))
    write_lines(tmp_path / (name + suffix), form(GERMAN, KOREAN))
    assert read_pairs(pairs=tmp_path / (name + suffix)).pairs == two.pairs
    assert two.pairs == tuple(
        Pair(*sides, n + 1) for n, sides in enumerate(zip(GERMAN, KOREAN, strict=True))
    )
    assert (two.sources, two.targets) == (GERMAN, KOREAN)


def test_marks_spaces_and_decomposed_characters_change_no_pair(tmp_path: Path) -> None:
    expected = read_pairs(*write_two_files(tmp_path, GERMAN, KOREAN))
    text = "".join(line.replace(" ", "\u00a0 ") + " \r\n" for line in KOREAN)
    (tmp_path / "b").write_bytes(b"\xef\xbb\xbf" + unicodedata.normalize("NFD", text).encode())
    actual = read_pairs(tmp_path / "a", tmp_path / "b")
    assert actual.pairs == expected.pairs
    assert [note.split(": ")[1][:20] for note in actual.report.notes] == [
        "the byte-order mark ",
        "3 lines end in CR LF",
    ]
    assert (
        texts_sha256(actual.targets)
        == texts_sha256(expected.targets)
        != texts_sha256(expected.sources)
    )


def test_unequal_line_counts_are_refused(tmp_path: Path) -> None:
    source, target = write_two_files(tmp_path, GERMAN, KOREAN[:2])
    message = cause(lambda: read_pairs(source, target))
    assert f"{source} has 3 lines but {target} has 2" in message
    assert "check for a stray line break" in message


def test_both_broken_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(DataError) as caught:
        read_pairs(tmp_path / "a", tmp_path / "b")
    assert len(caught.value.causes) == 2


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        (
            "a.tsv",
            ["a\tb", "a b", "a\tb\tc"],
            "2 lines do not hold exactly one tab between source and target",
        ),
        ("a.tsv", ["a"] * 21, ", 18, 19, 20 …)"),
        ("a.jsonl", ['{"source": "a", "target": "b"}', "{"], "1 line is not JSON"),
        ("a.jsonl", ["[" * 100_000], "1 line is not JSON"),
        (
            "a.jsonl",
            ['{"source": "a"}', "3", '{"source": "a", "target": 3}'],
            "lack a text under the key source or target",
        ),
        (
            "a.jsonl",
            ['{"source": "a", "target": "\\u0000"}'],
            "1 line holds a NUL character; remove it (line 1)",
        ),
    ],
)
def test_a_broken_pair_is_explained(
    tmp_path: Path, name: str, lines: list[str], expected: str
) -> None:
    write_lines(tmp_path / name, lines)
    assert expected in cause(lambda: read_pairs(pairs=tmp_path / name))


def test_unusable_pairs_are_dropped_and_reported(tmp_path: Path) -> None:
    long = "x" * 20_000
    sources = ["Ein Hund.", "", "a", "w " * 201, long, "Ein Hund.", "Ein Hund.", "  "]
    targets = ["A dog.", "b", "c" * 40, "w " * 201, long, "A dog.", "The dog.", ""]
    corpus = read_pairs(*write_two_files(tmp_path, sources, targets), filters=Filters())
    assert [pair.line for pair in corpus.pairs] == [1, 6, 7]
    report = corpus.report
    assert (report.read, report.kept, report.duplicates) == (8, 3, 1)
    assert {reason: dropped.count for reason, dropped in report.dropped.items()} == {
        "empty": 2,
        "odd length ratio": 1,
        "too long": 2,
    }
    assert report.dropped["empty"].examples == ((2, "(empty) ↔ b"), (8, "(empty) ↔ (empty)"))
    assert [line for line, _ in report.dropped["too long"].examples] == [4, 5]
    assert all(
        len(text) <= 60 for dropped in report.dropped.values() for _, text in dropped.examples
    )
    printed = report.lines()
    assert printed[0].startswith("train: 8 pairs read")
    assert "  dropped, too long: 2 (lines 4, 5)" in printed
    assert any("duplicates kept: 1" in line for line in printed)


def test_filters_apply_to_training_only(tmp_path: Path) -> None:
    sources = ["w " * 300, "a", ""]
    targets = ["w", "c" * 40, "b"]
    corpus = read_pairs(*write_two_files(tmp_path, sources, targets), name="valid")
    assert [pair.line for pair in corpus.pairs] == [1, 2]
    assert list(corpus.report.dropped) == ["empty"]


def test_duplicates_can_be_dropped(tmp_path: Path) -> None:
    files = write_two_files(tmp_path, ["a", "a", "a"], ["b", "c", "b"])
    corpus = read_pairs(*files, filters=Filters(drop_duplicates=True))
    assert [pair.line for pair in corpus.pairs] == [1, 2]
    assert corpus.report.dropped["duplicate"].count == 1
    assert corpus.report.duplicates == 0


def test_a_corpus_without_usable_pairs_is_refused(tmp_path: Path) -> None:
    message = cause(lambda: read_pairs(*write_two_files(tmp_path, ["", "a"], ["a", ""])))
    assert "none of the 2 pairs can be used (2 empty)" in message


def test_a_source_without_target_is_refused() -> None:
    with pytest.raises(UsageError):
        read_pairs(source="a")


def overlap(train: Corpus, corpus: Corpus, name: str) -> list[str]:
    shared = Overlap(corpus)
    shared.update(train.pairs)
    return shared.lines(name)


def corpus_of(folder: Path, sources: list[str], targets: list[str]) -> Corpus:
    return read_pairs(*write_two_files(folder, sources, targets))


def test_overlap_counts_pairs_sources_and_targets(tmp_path: Path) -> None:
    train = corpus_of(tmp_path, ["a", "b", "c"], ["A", "B", "C"])
    valid = corpus_of(tmp_path, ["x", "a", "b"], ["X", "A", "Y"])
    assert overlap(train, valid, "valid") == [
        "valid: 1 of 3 pairs is also in train (line 2)",
        "valid: 2 of 3 sources are also in train (lines 2, 3)",
        "valid: 1 of 3 targets is also in train (line 2)",
    ]
    disjoint = corpus_of(tmp_path, ["x"], ["X"])
    assert overlap(train, disjoint, "test") == ["test: none of its 1 pair shares a side with train"]


# --- settings


def test_all_parts_of_a_corpus_are_read(tmp_path: Path) -> None:
    source, target = write_two_files(tmp_path, GERMAN, KOREAN)
    write_lines(tmp_path / "valid.tsv", tsv_lines(GERMAN[:1], KOREAN[:1]))
    settings = CorpusSettings(source=source, target=target, valid_pairs=str(tmp_path / "valid.tsv"))
    corpora = read_all(settings)
    assert {name: len(corpus.pairs) for name, corpus in corpora.items()} == {"train": 3, "valid": 1}
    assert "valid: 1 of 1 pairs is also in train (line 1)" in overlap(
        corpora["train"], corpora["valid"], "valid"
    )


def test_problems_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    settings = CorpusSettings(
        pairs=str(tmp_path / "a.tsv"), test_source="b", test_target="c", valid_pairs="d"
    )
    with pytest.raises(DataError) as caught:
        read_all(settings)
    assert len(caught.value.causes) == 4


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "no training pairs; give source and target, or pairs"),
        ({"source": "a"}, "source is given without target; give source and target"),
        ({"source": "a", "target": "b", "pairs": "c"}, "source and target exclude pairs"),
        ({"pairs": "c", "valid_target": "a"}, "valid_target is given without valid_source"),
        (
            {"pairs": "c", "valid_pairs": "b", "valid_target": "a"},
            "valid_source and valid_target exclude valid_pairs",
        ),
        ({"pairs": "c", "max_length": 0}, "max_length"),
        (
            {"pairs": "c", "mix": [{"pairs": "d", "weight": 0.0}]},
            "mix 1: weight 0 is not a positive number up to 1,000",
        ),
        ({"pairs": "c", "mix": [{"pairs": "d", "wieght": 1.0}]}, "did you mean 'mix.weight'?"),
        ({"mix": [{"source": "d"}]}, "mix 1: source is given without target"),
        ({"source": "d", "mix": [{"pairs": "d"}]}, "source is given without target"),
        ({"pairs": "c", "mix": [{"pairs": "d", "name": "train"}]}, "two corpora are called train"),
        ({"mix": [{"pairs": "d", "name": "valid"}]}, "no training corpus can be called valid"),
        (
            {"mix": [{"pairs": "d", "name": "../d"}]},
            "mix 1 (../d): name '../d' cannot name a folder",
        ),
        ({"pairs": "c", "shards": "yes"}, "shards"),
        ({"pairs": "c", "max_lenght": 3}, "did you mean 'max_length'?"),
    ],
)
def test_contradicting_settings_are_refused(values: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=r".*") as caught:
        CorpusSettings.parse(values, "train.toml")
    assert expected in str(caught.value)


def test_all_problems_of_a_mix_are_reported() -> None:
    parts: list[dict[str, object]] = [
        {"weight": -1.0, "name": "a"},
        {"pairs": "x", "weight": float("nan")},
    ]
    with pytest.raises(ConfigurationError) as caught:
        CorpusSettings.parse({"mix": parts, "valid_source": "v"}, "train.toml")
    message = str(caught.value)
    for expected in (
        "mix 1 (a): no training pairs",
        "mix 1 (a): weight -1 is",
        "mix 2: weight nan is",
        "valid_source is given",
    ):
        assert expected in message


def test_a_mix_is_read_from_toml_and_written_back() -> None:
    text = 'source = "a"\ntarget = "b"\n[[mix]]\npairs = "c.tsv"\nweight = 3.0\nname = "news"\n[[mix]]\npairs = "d"\n'
    settings = CorpusSettings.parse(tomllib.loads(text), "train.toml")
    assert settings.weights == {"train": 1.0, "news": 3.0, "mix2": 1.0}
    assert {name: files.names for name, files in settings.training_files.items()} == {
        "train": ("a", "b"),
        "news": ("c.tsv",),
        "mix2": ("d",),
    }
    back = tomli_w.dumps(settings.model_dump(exclude_none=True))
    assert CorpusSettings.parse(tomllib.loads(back), "train.toml") == settings


def test_corpora_of_a_mix_are_read_like_the_main_corpus(tmp_path: Path) -> None:
    source, target = write_two_files(tmp_path, GERMAN, KOREAN)
    write_lines(tmp_path / "b.tsv", tsv_lines(GERMAN[:2], KOREAN[:2]))
    write_lines(tmp_path / "t.tsv", tsv_lines(GERMAN[1:], KOREAN[1:]))
    mix = {
        "mix": [{"pairs": str(tmp_path / "b.tsv"), "name": "news"}],
        "test_pairs": str(tmp_path / "t.tsv"),
    }
    corpora = read_all(
        CorpusSettings.parse({"source": source, "target": target, **mix}, "the test")
    )
    assert {name: len(corpus.pairs) for name, corpus in corpora.items()} == {
        "train": 3,
        "news": 2,
        "test": 2,
    }
    assert "test: 2 of 2 pairs are also in train (lines 1, 2)" in overlap(
        corpora["train"], corpora["test"], "test"
    )
