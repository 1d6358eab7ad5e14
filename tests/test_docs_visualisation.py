"""What docs/visualisation.md says can be run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small import folder

PAGE = Path(__file__).parent.parent / "docs" / "visualisation.md"


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path / "runs" / "first", end=-2.0)
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), {})
    assert (tmp_path / "bread.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert (tmp_path / "sheet.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "gradient × input" in capsys.readouterr().out


def test_the_data_are_those_that_the_page_names() -> None:
    import numpy as np

    from regard.visualisation import Alignment, ExplanationData
    from regard.visualisation.explanation_data import page_data

    story = ExplanationData.from_alignments([Alignment(("a",), ("b",), np.ones((1, 1)))])
    named = PAGE.read_text(encoding="utf-8").split("## Served")[1]
    for key in page_data(story):
        assert f"`{key}`" in named or key in {"title", "langs", "rtl", "links", "facts"}, key
