"""The examples of docs/visualisation.md run, and the page names every field of the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.small_models import folder
from repository.pages import DOCS, fenced, read

PAGE = DOCS / "visualisation.md"


@pytest.mark.system
def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path / "runs" / "first", end=-2.0)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in fenced(PAGE, "python"):
        exec(compile(code, str(PAGE), "exec"), names)
    for page in ("bread.html", "served.html"):
        assert read(tmp_path / page).startswith("<!DOCTYPE html>")
    assert read(tmp_path / "sheet.svg").startswith("<svg")
    assert "gradient × input" in capsys.readouterr().out

    answered = json.loads(json.dumps(names["answer"]("나는 집에 간다")))
    source = answered["translation"]["sourceWords"]["texts"]
    assert source == ["나는", "집에", "간다"], (
        "what the served page asks for is there, and is JSON"
    )
