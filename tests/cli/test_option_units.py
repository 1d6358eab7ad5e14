"""Options that decide something by themselves, without a model that was trained: units of the
command line.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command
from small import folder

from regard.interchange import ctranslate2_export, huggingface


@pytest.fixture
def run(regard: Command) -> Path:
    """Write a model folder with drawn weights into the current folder."""
    return folder(Path("run"))


def test_every_reason_against_streaming_is_given(regard: Command, run: Path) -> None:
    Path("lines").write_text("나는 집에 간다\n", encoding="utf-8")
    options = ("translate", run, "lines", "--stream", "--nbest", 2, "--mbr")
    causes = ["--stream and --nbest, --mbr: text already printed"]
    regard.fails(*options, status=2, because=causes)


@pytest.mark.parametrize("to", ["ctranslate2", "huggingface"])
def test_an_export_without_a_folder_stays_in_the_run(
    regard: Command, run: Path, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []
    for toolkit in (ctranslate2_export, huggingface):
        monkeypatch.setattr(
            toolkit, "export", lambda _, out, *__: folders.append(out) or "ten sentences"
        )
    name = {"ctranslate2": "ctranslate2-float32"}.get(to, to)
    assert f"wrote run/exports/{name}" in regard("export", run, "--to", to).err
    regard("export", run, "elsewhere", "--to", to)
    assert folders == [run / "exports" / name, Path("elsewhere")]
