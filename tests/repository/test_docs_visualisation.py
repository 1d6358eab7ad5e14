"""The examples of docs/visualisation.md run, and the page names every field of the data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.small_models import folder

PAGE = Path(__file__).resolve().parents[2] / "docs" / "visualisation.md"


@pytest.mark.system
def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path / "runs" / "first", end=-2.0)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in re.findall(
        r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    ):
        exec(compile(code, str(PAGE), "exec"), names)
    for page in ("bread.html", "served.html"):
        assert (
            (tmp_path / page).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        )

    assert (tmp_path / "sheet.svg").read_text(encoding="utf-8").startswith("<svg")
    assert "gradient × input" in capsys.readouterr().out

    answered = json.loads(json.dumps(names["answer"]("나는 집에 간다")))
    assert answered["source"] == ["나는", "집에", "간다"], (
        "what the served page asks for is there, and is JSON"
    )
