"""A column of tables, read as lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.common.errors import DataError
from regard.serving.cluster.table_lines import TableLines

pa = pytest.importorskip(
    "pyarrow", reason="pyarrow is not installed: pip install 'regard[scale]'"
)
arrow_csv = pytest.importorskip("pyarrow.csv")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")
TEXTS = ["나는 집에 간다", "", "two\nlines", None, "I go\r\nhome", "빵"]


def _write(path: Path, texts: list[str | None] = TEXTS, name: str = "text") -> Path:
    numbers = pa.array(range(len(texts)))
    table = pa.table({"id": numbers, name: pa.array(texts, pa.string())})
    write: dict[str, Callable[..., object]] = {
        ".parquet": parquet.write_table,
        ".feather": feather.write_feather,
        ".csv": arrow_csv.write_csv,
    }
    options = {"row_group_size": 2} if path.suffix == ".parquet" else {}
    write[path.suffix](table, str(path), **options)
    return path


def _lines(path: Path, column: str = "text") -> list[str]:
    return list(TableLines(str(path), column, 1000))


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".csv"])
def test_cells_are_lines(tmp_path: Path, ending: str) -> None:
    lines = TableLines(str(_write(tmp_path / f"table{ending}")), "text", 1000)
    wanted = ["나는 집에 간다", "", "two lines", "", "I go home", "빵"]

    assert list(lines) == wanted
    assert list(lines) == wanted, "they can be read again"
    assert lines.checked() == len(wanted)


def test_files_of_a_folder_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, text in (("2", "c"), ("0", "a"), ("1", "b")):
        _write(tmp_path / f"{name}.parquet", [text])
    assert _lines(tmp_path) == ["a", "b", "c"]


def test_all_files_without_the_column_are_named(tmp_path: Path) -> None:
    for number, column in enumerate(("text", "words", "tokens")):
        _write(tmp_path / f"{number}.parquet", ["a"], column)

    with pytest.raises(DataError) as caught:
        _lines(tmp_path)

    first, second = caught.value.causes

    assert "1.parquet: has no column 'text'; there are id, words" in first
    assert "2.parquet: has no column 'text'; there are id, tokens" in second


def _write_rows(path: Path, texts: list[str | None]) -> Path:
    """Write CSV or JSON lines as other programs do, by the standard library."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            writer = csv.writer(file)
            writer.writerow(("text", "id"))
            writer.writerows(zip(texts, range(len(texts)), strict=True))
        else:
            for number, text in enumerate(texts):
                file.write(json.dumps({"text": text, "id": number}) + "\n")
    return path


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize(
    "texts",
    [
        ["a\nb" * 100] * 20_000,  # longer than the parts in which a file is read
        [None] * 150_000 + ["빵"],
        ["2020-01-01"] * 100_000 + ["빵"],
        ["2020-01-01 10:00:01.000", "2020-01-01T10:00:00Z", "NA", "null", "true"],
    ],
    ids=["breaks", "none", "dates", "words"],
)
def test_texts_stay_what_they_are_whatever_the_first_rows_look_like(
    tmp_path: Path, texts: list[str | None], ending: str
) -> None:
    lines = _lines(_write_rows(tmp_path / f"table{ending}", texts))
    assert lines == [(text or "").replace("\n", " ") for text in texts]


def test_numbers_are_texts_in_csv_and_refused_in_json(tmp_path: Path) -> None:
    table = _write_rows(tmp_path / "table.csv", ["a"] * 3)

    assert _lines(table, "id") == ["0", "1", "2"]

    table = _write_rows(tmp_path / "table.jsonl", ["a"])

    with pytest.raises(DataError, match="column 'id' holds int64, wanted texts"):
        _lines(table, "id")


def test_tables_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "two"
    folder.mkdir()
    _write(folder / "0.parquet")
    _write(folder / "1.csv")
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1 nothing PAR1")
    absent = tmp_path / "absent.parquet"
    long = _write(tmp_path / "long.parquet", ["a", "빵" * 1001])
    nul = _write(tmp_path / "nul.parquet", ["a\0b"])

    for path, message in (
        (damaged, "damaged.parquet: is no table, or a damaged one; wanted .parquet"),
        (absent, "absent.parquet.*cannot be read as a table"),
        (folder, "tables of several formats, csv, parquet"),
        (long, "row 2 has more than 1,000 characters"),
        (nul, "row 1 holds a NUL character"),
    ):
        with pytest.raises(DataError, match=message):
            _lines(path)
