"""Saving: the suffix chooses the format, and files are written atomically."""

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from regard.common.errors import UsageError
from regard.visualisation import Alignment, save


@pytest.mark.parametrize(
    ("name", "start"),
    [("한글.svg", b"<svg"), ("a.PNG", b"\x89PNG"), ("a.html", b"<!DOCTYPE html>")],
)
def test_the_suffix_chooses_the_format(
    tmp_path: Path, bread: Alignment, name: str, start: bytes
) -> None:
    assert save([bread, bread], tmp_path / name) == tmp_path / name
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.gif", "svg"])
def test_unsupported_suffixes_are_refused(
    tmp_path: Path, bread: Alignment, name: str
) -> None:
    with pytest.raises(UsageError, match=rf"\.svg, \.png or \.html; got '{name}'"):
        save(bread, tmp_path / name)

    with pytest.raises(UsageError, match="no alignment"):
        save([], tmp_path / "a.svg")

    assert list(tmp_path.iterdir()) == []


def test_characters_that_png_and_gif_cannot_show_are_named(
    tmp_path: Path, bread: Alignment
) -> None:
    chinese = replace(bread, source=("我", "吃面包", "e\u0301\u200b", "🙂"))
    message = r"a.png: the font of PNG and GIF lacks 我 .*🙂; write \.svg or \.html"
    with pytest.warns(UserWarning, match=message):
        save(chinese, tmp_path / "a.png")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("a.svg", "a.html"):
            save(chinese, tmp_path / name)
        save(bread, tmp_path / "a.png")


def test_unwritable_path_is_refused(tmp_path: Path, bread: Alignment) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*No such file or directory"):
        save(bread, tmp_path / "absent" / "a.svg")

    (tmp_path / "a.svg").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        save(bread, tmp_path / "a.svg")

    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]


def test_failed_write_leaves_the_old_file(
    tmp_path: Path, bread: Alignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.svg"
    path.write_text("old")

    def write_half(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(UsageError, match="No space left on device"):
        save(bread, path)

    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.svg"]
