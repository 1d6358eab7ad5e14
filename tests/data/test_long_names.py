"""A caption whose image has a name that no file can have is reported like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.caption_files import _FolderIndex


@pytest.mark.parametrize("name", ["a" * 6000 + ".jpg", "b/" + "가" * 100, "/".join("c" * 3000)])
def test_a_name_of_hundreds_of_letters_is_no_image(tmp_path: Path, name: str) -> None:
    kept, problem = _FolderIndex(tmp_path).find(name)
    assert kept == name
    assert "is longer than file names are" in problem
    assert len(problem) < 200


def test_a_folder_is_no_image_name_that_is_too_long(tmp_path: Path) -> None:
    assert "longer" not in _FolderIndex(tmp_path).find(".")[1]
