"""The commands and the Python example of docs/bulk.md run as they stand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from helpers.small_models import SENTENCES, folder

from regard.cli import main

PAGE = (Path(__file__).parent.parent.parent / "docs" / "bulk.md").read_text(
    encoding="utf-8"
)


@pytest.fixture(autouse=True)
def _work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder(tmp_path / "runs" / "first", end=2.0)
    monkeypatch.chdir(tmp_path)
    Path("long.ko").write_text(
        "".join(f"{line}\n" for line in SENTENCES), encoding="utf-8"
    )


@pytest.mark.parametrize("line", re.findall(r"^    regard (.*)$", PAGE, re.MULTILINE))
def test_the_commands_run(line: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(line))
    assert ended.value.code == 0
    assert len(Path("long.en").read_text(encoding="utf-8").splitlines()) == len(
        SENTENCES
    )


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "bulk.md", "exec"), {})

    assert len(capsys.readouterr().out.splitlines()) == len(SENTENCES)
