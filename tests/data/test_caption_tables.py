"""Tables of captions give the captions that a spreadsheet program shows, whatever the order and the
names of their columns; the tables are written by the csv module.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.image_folders import noise
from helpers.spreadsheets import write_ods, write_xlsx

from regard.common.errors import ConfigurationError, DataError
from regard.data.caption_files import CaptionSet, Problems, read_captions
from regard.data.corpus_settings import CorpusSettings

CAPTIONS = {
    "a.png": 'A dog, running; "fast"',
    "b.png": "빨간 공 하나",
    "c.png": "a red ball on\na table",
}
EXPECTED = {**CAPTIONS, "c.png": "a red ball on a table"}
WHO = {"a.png": "Anna", "b.png": "Bo", "c.png": "Anna"}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in CAPTIONS:
        noise().save(folder / name)
    return folder


def _rows(header: str, order: str) -> list[list[str]]:
    """Return rows of the columns in `order`: file (f), its stem (s), caption (c), who (w)."""
    rows = [header.split(",")] if header else []
    for name, text in CAPTIONS.items():
        cells = {"f": name, "s": name.removesuffix(".png"), "c": text, "w": WHO[name]}
        rows.append([cells[kind] for kind in order])
    return rows


def _csv(rows: Sequence[Sequence[str]], delimiter: str = ",") -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue().encode("utf-8-sig")


def _read(
    path: Path, folder: Path, columns: str = "", problems: Problems | None = None
) -> CaptionSet:
    return read_captions(path, folder, problems or Problems(), columns=columns)


def _texts(caption_set: CaptionSet) -> dict[str, str]:
    return {image.file: "|".join(image.captions) for image in caption_set.images}


TABLES = [
    ("File,Caption,Who", "fcw", ",", "columns File and Caption of 3"),
    ("Caption,File", "cf", ",", "columns File and Caption of 2"),
    ("image,Who,Caption", "fwc", ",", "columns image and Caption of 3"),
    ("Datei,Beschreibung,Wer", "fcw", ";", "columns Datei and Beschreibung of 3"),
    ("파일,설명,이름", "fcw", ",", "columns 파일 and 설명 of 3"),
    ("Who,Image file,légende", "wfc", "\t", "columns Image file and légende of 3"),
    ("Name,Scan,Words", "wfc", ",", "columns Scan and Words of 3"),
    ("Photo,Caption,Who", "scw", ",", "columns Photo and Caption of 3"),
    ("", "cwf", ",", "columns 3 and 1 of 3"),
    ("", "fc", ";", "columns 1 and 2 of 2"),
    ("", "fwc", "\t", "columns 1 and 3 of 3"),
    ("", "swc", ",", "columns 1 and 3 of 3"),
]


@pytest.mark.parametrize(("header", "order", "delimiter", "note"), TABLES)
def test_columns_are_found_by_name_or_content(
    tmp_path: Path, images: Path, header: str, order: str, delimiter: str, note: str
) -> None:
    path = tmp_path / "captions.csv"
    path.write_bytes(_csv(_rows(header, order), delimiter))
    problems = Problems()
    caption_set = _read(path, images, problems=problems)

    assert problems.by_kind == {}
    assert _texts(caption_set) == EXPECTED
    assert f"{note} were read" in caption_set.notes


@pytest.mark.parametrize("name", ["a.xlsx", "a.ods"])
def test_spreadsheets_are_tables(tmp_path: Path, images: Path, name: str) -> None:
    pytest.importorskip("python_calamine")
    path = tmp_path / name
    rows = _rows("Who,Caption,File", "wcf")
    if name == "a.ods":
        write_ods(path, rows)
        named = path
    else:
        write_xlsx(path, {"About": [["a note"]], "Class 4b": rows})
        named = Path(f"{path}#Class 4b")
    for form in (path, named):
        assert _texts(_read(form, images)) == EXPECTED
    settings = {"folder": str(images), "captions": str(named)}
    data = CorpusSettings.parse({"images": settings}, "test")
    assert data.paths == {"train.captions": path}


@pytest.mark.parametrize("columns", ["Scan,Beschreibung", "3,1"])
def test_requested_columns_are_read(tmp_path: Path, images: Path, columns: str) -> None:
    path = tmp_path / "captions.csv"
    rows = [["Beschreibung", "File", "Scan"]]
    rows += [[text, f"{name}.old.png", name] for name, text in CAPTIONS.items()]
    path.write_bytes(_csv(rows))
    assert _texts(_read(path, images, columns)) == EXPECTED
    with pytest.raises(DataError, match="has no column 'Bild'; there are 1"):
        _read(path, images, "Bild,Beschreibung")


@pytest.mark.parametrize(
    ("header", "rows", "what"),
    [
        ("Nr,Notiz,Who", [["eins", "ein Hund", "Bo"]], "image files"),
        ("File,Nr,Points", [["a.png", "1", "2"], ["b.png", "2", "2"]], "captions"),
    ],
)
def test_a_table_without_the_columns_is_refused(
    tmp_path: Path, images: Path, header: str, rows: list[list[str]], what: str
) -> None:
    path = tmp_path / "captions.csv"
    path.write_bytes(_csv([header.split(","), *rows]))
    first, second, _ = header.split(",")
    with pytest.raises(DataError) as refused:
        _read(path, images)
    (cause,) = refused.value.causes
    assert cause.startswith(
        f"{path}: has the columns {header.replace(',', ', ')}, and none names {what}; give"
    )
    assert f"`columns={first},{second}`" in cause


def test_rows_without_a_caption_are_noted_and_broken_rows_refused(
    tmp_path: Path, images: Path
) -> None:
    path = tmp_path / "captions.csv"
    head = "\ufeffFile,Caption,Who\r\na.png,x,Bo\r\n"
    path.write_text(f"{head}b.png, ,Bo\r\n,,Bo\r\n,,\r\nc.png,z,\r\n", newline="")
    caption_set = _read(path, images)
    assert _texts(caption_set) == {"a.png": "x", "c.png": "z"}
    assert "skipped: 1 line has no caption (3)" in caption_set.notes

    path.write_text(f'{head}b.png,"y" z,Bo\r\n', newline="")
    with pytest.raises(DataError) as refused:
        _read(path, images)
    (cause,) = refused.value.causes
    assert cause.startswith(
        f"{path}: line 3 does not hold exactly 3 fields, each quoted"
    )
    assert cause.endswith("; correct it")


def test_an_empty_cell_below_a_known_header_is_noted(
    tmp_path: Path, images: Path
) -> None:
    path = tmp_path / "captions.csv"
    path.write_text("image,caption\na.png,x\nb.png,\n")
    assert "skipped: 1 line has no caption (3)" in _read(path, images).notes


def test_columns_of_captions_are_a_setting(images: Path) -> None:
    settings = {"folder": str(images), "captions": "c.csv"}
    data = CorpusSettings.parse({"images": settings, "columns": "File,Text"}, "test")
    assert data.columns == "File,Text"
    with pytest.raises(ConfigurationError, match="only with pairs"):
        CorpusSettings.parse(
            {"source": "a", "target": "b", "columns": "File,Text"}, "test"
        )
