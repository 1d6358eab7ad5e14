"""The right columns of a table are found by their names or by what is in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.made_up_tables import make_table

from regard.common.errors import DataError
from regard.data.corpus import read_corpus
from regard.data.corpus_settings import CorpusSettings
from regard.data.file_formats import (
    SKIPPED,
    PairFiles,
    PairReader,
    languages_of_pairs,
)
from regard.data.language_codes import base_language, canonical_code
from regard.data.languages import Languages, language_names
from regard.data.table_columns import ColumnRequest, Table, choose_columns

TABLES = 40


def _file(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_columns_of_made_up_tables_are_found(tmp_path: Path) -> None:
    for seed in range(TABLES):
        table = make_table(tmp_path, seed)
        files = PairFiles(pairs=table.path)
        reader = PairReader(files)
        assert [row for row in reader if row != SKIPPED] == table.pairs, seed
        columns = reader.columns
        assert (columns.source, columns.target) == table.columns, seed
        languages = languages_of_pairs(files).pair
        assert tuple(map(base_language, languages)) == table.languages, seed


def test_every_language_is_known_by_its_code_and_names() -> None:
    for code, names in language_names().items():
        other = "German" if code == "en" else "English"
        for name in filter(None, (code, code.upper(), *names)):
            rows = [
                ["key", name, other, "comment"],
                ["a.b", "Je, je.", "A sentence.", ""],
                ["a.c", "Ja, ja, ja.", "Another one.", "see a.b"],
            ]
            columns = choose_columns(Table(rows, iter(())), ColumnRequest())
            assert (columns.source, columns.target) == (1, 2), name
            assert columns.names == (name, other)
            known = base_language(columns.languages.source)
            same_name = {
                "isiNdebele": "nd"
            }  # South and North Ndebele call themselves so
            assert known == same_name.get(name, base_language(canonical_code(code))), (
                name
            )


@pytest.mark.parametrize(
    ("name", "header", "given", "columns", "languages"),
    [
        ("a.csv", "hsb;en", "", (0, 1), "hsb,en"),
        ("a.en-hsb.csv", "hsb;en", "", (0, 1), "hsb,en"),
        ("a.csv", "hsb;en", "en,hsb", (1, 0), "en,hsb"),
        ("a.csv", "de;hsb;en", "", (0, 1), "de,hsb"),
        ("a.en-hsb.csv", "de;hsb;en", "", (2, 1), "en,hsb"),
        ("a.csv", "target;source", "", (1, 0), ","),
        ("a.csv", "hsb translation;English source", "", (1, 0), "en,hsb"),
        ("a.csv", "id;en", "", (0, 1), "id,en"),
        ("a.csv", "id;en;hsb", "", (1, 2), "en,hsb"),
        ("a.csv", "translation;my words;note", "", (1, 0), ","),
        ("a.csv", "Serbian (Latin);Serbian (Cyrillic)", "", (0, 1), "sr-Latn,sr-Cyrl"),
    ],
)
def test_names_of_columns_decide(
    tmp_path: Path,
    name: str,
    header: str,
    given: str,
    columns: tuple[int, int],
    languages: str,
) -> None:
    width = header.count(";") + 1
    lines = [
        ";".join(f"word {row} of {column}" for column in range(width))
        for row in range(4)
    ]
    path = _file(tmp_path, name, "\n".join([header, *lines]) + "\n")
    source, _, target = given.partition(",")
    files = PairFiles(pairs=path, languages=Languages(source=source, target=target))
    corpus = read_corpus(files)
    expected = [
        tuple(f"word {row} of {column}" for column in columns) for row in range(4)
    ]
    assert [(pair.source, pair.target) for pair in corpus] == expected
    assert ",".join(languages_of_pairs(files).pair) == languages
    is_said = any("says en → hsb" in note for note in corpus.report.notes)
    assert is_said == (header == "hsb;en" and name != "a.csv")


def test_header_languages_are_those_of_the_corpus(tmp_path: Path) -> None:
    path = _file(tmp_path, "x.en-hsb.csv", "hsb;en\nPos spi.;A dog.\nDom.;A house.\n")
    settings = CorpusSettings(pairs=path)
    assert settings.languages.pair == ("hsb", "en")
    known = settings.with_languages(Languages())
    assert (known.source_language, known.target_language) == ("hsb", "en")
    assert CorpusSettings(pairs=str(tmp_path / "none.en-hsb.csv")).languages.pair == (
        "en",
        "hsb",
    )


def test_columns_are_named_or_numbered(tmp_path: Path) -> None:
    text = "key;en;hsb;en\na.b;A dog.;Pos.;x y\na.c;A cat.;Kočka.;z\n"
    path = _file(tmp_path, "a.csv", text)
    for columns in ("Upper Sorbian,English", "hsb,en", "3,2", " HSB , 2"):
        corpus = read_corpus(PairFiles(pairs=path, columns=columns))
        assert [*zip(corpus.sources, corpus.targets, strict=True)] == [
            ("Pos.", "A dog."),
            ("Kočka.", "A cat."),
        ]
    for columns, message in (
        (
            "hsb,French,9",
            "no column 'French'; there are 1 ('key'), 2 ('en'), 3 ('hsb')",
        ),
        ("hsb", "wanted two columns (`columns=`), such as English,hsb or 2,3"),
        ("hsb,3", "wanted two columns"),
    ):
        with pytest.raises(DataError) as caught:
            read_corpus(PairFiles(pairs=path, columns=columns))
        assert message in str(caught.value)


def test_too_many_columns_are_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, "a.csv", (";".join("x" * 2000) + "\n") * 3)
    with pytest.raises(
        DataError, match="has 2,000 columns, and at most 1,000 are read"
    ):
        read_corpus(PairFiles(pairs=path))


@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be", "utf-16"])
@pytest.mark.parametrize("text", ["English;Korean\nA dog;개\n", "집\t물\n가정\t나무\n"])
def test_utf16_is_named(tmp_path: Path, text: str, coding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode(coding))
    with pytest.raises(DataError, match="it looks like UTF-16: save it as UTF-8"):
        read_corpus(PairFiles(pairs=path))


def test_json_lines_of_hugging_face_are_read(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        "a.jsonl",
        '{"id": "0", "translation": {"en": "a b", "ko": "집"}}\n' * 2,
    )
    corpus = read_corpus(PairFiles(pairs=path))
    assert (corpus.sources, corpus.targets) == (["a b"] * 2, ["집"] * 2)
    assert languages_of_pairs(PairFiles(pairs=path)).pair == ("en", "ko")
    assert "en and ko were read, such as 'a b' ↔ '집'" in corpus.report.notes[0]
    path = _file(tmp_path, "b.jsonl", '{"ko": "집", "en": "a"}\n{"ko": "물"}\n[1]\n')
    with pytest.raises(DataError, match="2 lines lack a text under the key ko or en"):
        read_corpus(PairFiles(pairs=path))


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_of_json_is_read(tmp_path: Path, indent: int | None) -> None:
    rows = [{"en": f"a b {n}", "ko": f"집 {n}"} for n in range(9)]
    text = json.dumps(rows, ensure_ascii=False, indent=indent)
    path = _file(tmp_path, "a.json", "\ufeff" + text)
    corpus = read_corpus(PairFiles(pairs=path))
    assert corpus.sources == [row["en"] for row in rows]
    assert corpus.targets == [row["ko"] for row in rows]
    assert read_corpus(PairFiles(pairs=path), on_disk=True).report == corpus.report
    for broken in (text[:-1], text.replace("집 3", "집 \udc80")):
        Path(path).write_bytes(broken.encode("utf-8", "surrogateescape"))
        with pytest.raises(
            DataError, match="begins like an array of JSON, and is none"
        ):
            read_corpus(PairFiles(pairs=path))
    long = json.dumps([*rows, {"en": "x" * 10**6, "ko": "y"}])
    corpus = read_corpus(PairFiles(pairs=_file(tmp_path, "b.json", long)))
    assert corpus.report.dropped["too long"].lines == (10,)


@pytest.mark.parametrize("gap", ["_" * 99, "a_" * 49, "a.b-" * 24])
def test_gaps_to_fill_in_are_texts(tmp_path: Path, gap: str) -> None:
    """Patterns that tell texts from names of keys must not try every way to divide them."""
    text = "".join(f"k_{n}\tName{gap} {n}?\tMjeno{gap} {n}?\n" for n in range(9))
    corpus = read_corpus(PairFiles(pairs=_file(tmp_path, "a.tsv", text)))
    assert corpus.sources[:1] == [f"Name{gap} 0?"]


def test_columns_without_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"columns \(1,2\): only with pairs"):
        CorpusSettings(source="a", target="b", columns="1,2")
