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
TEXTS = ["나는 집에 간다", "", "two\nlines", "I go\r\nhome", "빵"]


def _write(path: Path, texts: list[str | None] = TEXTS, name: str = "text") -> Path:
    from pyarrow import csv as arrow_csv
    from pyarrow import feather, parquet

    table = pa.table(
        {"id": pa.array(range(len(texts))), name: pa.array(texts, pa.string())}
    )
    writers: dict[str, Callable[..., object]] = {
        ".parquet": lambda: parquet.write_table(table, path, row_group_size=2),
        ".feather": lambda: feather.write_feather(table, str(path)),
        ".csv": lambda: arrow_csv.write_csv(table, path),
    }
    writers[path.suffix]()
    return path


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".csv"])
def test_cells_are_lines(tmp_path: Path, ending: str) -> None:
    lines = TableLines(str(_write(tmp_path / f"table{ending}")), "text", 1000)
    wanted = ["나는 집에 간다", "", "two lines", "I go home", "빵"]

    assert list(lines) == wanted
    assert list(lines) == wanted, "they can be read again"
    assert lines.checked() == len(wanted)


def test_empty_cells_are_empty_lines(tmp_path: Path) -> None:
    assert list(
        TableLines(
            str(_write(tmp_path / "table.parquet", ["a", None, "b"])), "text", 1000
        )
    ) == ["a", "", "b"]


def test_files_of_a_folder_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, text in (("2", "c"), ("0", "a"), ("1", "b")):
        _write(tmp_path / f"{name}.parquet", [text])
    assert list(TableLines(str(tmp_path), "text", 1000)) == ["a", "b", "c"]


def test_all_files_without_the_column_are_named(tmp_path: Path) -> None:
    _write(tmp_path / "0.parquet", ["a"])
    _write(tmp_path / "1.parquet", ["a"], "words")
    _write(tmp_path / "2.parquet", ["a"], "tokens")

    with pytest.raises(DataError) as caught:
        list(TableLines(str(tmp_path), "text", 1000))

    first, second = caught.value.causes
    assert "1.parquet: has no column 'text'; there are id, words" in first
    assert "2.parquet: has no column 'text'; there are id, tokens" in second


def _write_rows(path: Path, texts: list[str | None]) -> Path:
    """Write CSV or JSON lines as other programs do, by the standard library."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            csv.writer(file).writerows(
                [("text", "id"), *((text, number) for number, text in enumerate(texts))]
            )
        else:
            file.writelines(
                json.dumps({"text": text, "id": number}) + "\n"
                for number, text in enumerate(texts)
            )
    return path


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize(
    "texts",
    [
        ["a\nb" * 100] * 20_000,  # longer than the parts in which a file is read
        [None] * 200_000 + ["빵"],
        [""] * 200_000 + ["빵"],
        ["2020-01-01"] * 200_000 + ["빵"],
        ["2020-01-01 10:00:01.000", "2020-01-01T10:00:00Z", "NA", "null", "true"],
    ],
    ids=["breaks", "none", "empty", "dates", "words"],
)
def test_texts_stay_what_they_are_whatever_the_first_rows_look_like(
    tmp_path: Path, texts: list[str | None], ending: str
) -> None:
    lines = list(
        TableLines(str(_write_rows(tmp_path / f"table{ending}", texts)), "text", 1000)
    )
    assert lines == [(text or "").replace("\n", " ") for text in texts]


def test_numbers_are_texts_in_csv_and_refused_in_json(tmp_path: Path) -> None:
    assert list(
        TableLines(str(_write_rows(tmp_path / "table.csv", ["a"] * 3)), "id", 1000)
    ) == [
        "0",
        "1",
        "2",
    ]
    with pytest.raises(DataError, match="column 'id' holds int64, wanted texts"):
        list(TableLines(str(_write_rows(tmp_path / "table.jsonl", ["a"])), "id", 1000))


def test_damaged_and_missing_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "table.parquet").write_bytes(b"PAR1 nothing PAR1")
    for name in ("table.parquet", "absent.parquet"):
        with pytest.raises(DataError, match=f"{name}.*cannot be read as a table"):
            list(TableLines(str(tmp_path / name), "text", 1000))


def test_two_formats_in_a_folder_are_refused(tmp_path: Path) -> None:
    _write(tmp_path / "0.parquet")
    _write(tmp_path / "1.csv")
    with pytest.raises(DataError, match="tables of several formats, csv, parquet"):
        list(TableLines(str(tmp_path), "text", 1000))


def test_long_rows_and_nul_characters_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="row 2 has more than 1,000 characters"):
        list(
            TableLines(
                str(_write(tmp_path / "long.parquet", ["a", "빵" * 1001])), "text", 1000
            )
        )
    with pytest.raises(DataError, match="row 1 holds a NUL character"):
        list(TableLines(str(_write(tmp_path / "nul.parquet", ["a\0b"])), "text", 1000))
