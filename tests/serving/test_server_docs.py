"""The command lines of docs/server.md, as they stand there, against the server; and its tables
against the code.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fake import FakeService
from helpers.system_marks import posix

from regard.requests.server_settings import ServerSettings
from regard.serving.application import create_app
from regard.serving.keys import list_keys

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")
TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorials" / "serve.md").read_text(
    encoding="utf-8"
)
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
LINES = re.findall(r"^    (curl .*)$", PAGE + TUTORIAL, re.MULTILINE)


@posix
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_command_lines(serve: Callable[..., str], tmp_path: Path) -> None:
    address = serve()
    (tmp_path / "dog.png").write_bytes(b"\x89PNG")
    (tmp_path / "page.html").write_text("<p>a dog</p>")
    assert len(LINES) > 6

    for line in LINES:
        command = line.replace("http://localhost:5000", address)
        command = command.replace("curl ", "curl -sS --fail-with-body ", 1)
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        assert done.stdout[0] in "{[e"


def test_the_python_of_keys_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, code = CODE
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "server.md", "exec"), {})
    assert "name='phone'" in capsys.readouterr().out
    assert list_keys("keys.json") == ()


def test_the_python_of_documents_runs(
    serve: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("page.html").write_text("<p>a <b>dog</b></p>")
    code = CODE[0].replace("http://localhost:5000", serve())
    exec(compile(code, "server.md", "exec"), {})
    assert Path("page.en.html").read_text() == "<p>A <b>DOG</b></p>"


def test_defaults() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", PAGE, re.MULTILINE))
    assert len(rows) == 11

    for name, value in rows.items():
        assert getattr(ServerSettings(), name) == int(value.replace(",", ""))
    for name in {*ServerSettings.model_fields} - {"key_file"}:
        assert f"`{name}`" in PAGE


def test_every_endpoint_is_described() -> None:
    for path in create_app(FakeService(), ServerSettings()).openapi()["paths"]:
        assert path.replace("{name}", "NAME").replace("{id}", "ID") in PAGE, path
