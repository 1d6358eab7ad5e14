"""Processes import nothing from the folder that they are started in, whatever lies there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.common import processes
from regard.common.errors import TrainingError
from regard.common.processes import module_command
from regard.learn.lab.training import Job, TrainingPool
from regard.training.forecast import loopback_speed

ROOT = Path(regard.__file__).parent
PLANTED = (
    *(
        "regard",
        "torch",
        "numpy",
        "pydantic",
        "typer",
        "tokenizers",
        "sentencepiece",
        "safetensors",
        "PIL",
        "sacrebleu",
    ),
    *(
        "json",
        "typing",
        "functools",
        "types",
        "argparse",
        "pickle",
        "multiprocessing",
        "subprocess",
        "socket",
        "yaml",
    ),
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with modules that tell when they are imported, and let every process start
    anew.
    """
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(
            "open(__file__ + '.imported', 'w')\nraise SystemExit(77)\n"
        )

    monkeypatch.chdir(tmp_path)
    real: Any = next(
        kind for kind in subprocess.Popen.__mro__ if kind.__module__ == "subprocess"
    )
    # Not forked from a process that has imported all.
    monkeypatch.setattr(subprocess, "Popen", real)
    return tmp_path


@pytest.mark.slow
def test_nothing_is_imported_from_the_current_folder(here: Path) -> None:
    """Neither by commands nor by what they start, each up to an error that needs its own modules.

    The fuzzer (tests/fuzz) plants modules for every command in the default run.
    """
    command = module_command("regard.translate_stdin", "doctor", "absent")
    assert b"absent" in subprocess.run(command, check=False, capture_output=True).stderr
    assert loopback_speed() > 0

    job = Job("model", here / "absent.toml", here / "out", 0, 1)
    with pytest.raises(TrainingError, match=r"absent\.toml"):
        TrainingPool(1, lambda _: None).train([job])
    assert list(here.glob("*.imported")) == []


@pytest.mark.system
def test_python_m_leaves_the_current_folder_once_it_runs(here: Path) -> None:
    for name in (
        "regard",
        "json",
        "typing",
        "functools",
        "types",
        "argparse",
        "pickle",
        "subprocess",
        "socket",
    ):
        # Python itself imports some before Regard begins.
        (here / f"{name}.py").unlink(missing_ok=True)
    command = [sys.executable, "-m", "regard", "doctor", "absent"]
    assert b"absent" in subprocess.run(command, check=False, capture_output=True).stderr
    assert list(here.glob("*.imported")) == []


def test_one_function_makes_all_commands_of_python() -> None:
    assert (Path(processes._ROOT) / "regard" / "__init__.py").is_file(), (
        "what the processes that are started import"
    )
    starting = re.compile(r"sys\.executable|get_context\(\"spawn|set_start_method")
    starters = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if starting.search(path.read_text("utf-8"))
    }
    assert starters == {"common/processes.py"}
