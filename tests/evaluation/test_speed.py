"""Speed of runs, measured in processes of their own, some of which fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from helpers.small_models import SENTENCES, folder
from helpers.time_limits import time_limit

from regard.evaluation.speed import measure_speed

pytestmark = pytest.mark.system
LINES = SENTENCES[:4]


def test_a_run_that_cannot_be_measured_does_not_lose_the_others(tmp_path: Path) -> None:
    runs = {name: folder(tmp_path / name, end=0.5) for name in ("broken", "last")}
    (runs["broken"] / "config.json").write_text("{}")
    with time_limit():
        times, causes = measure_speed(runs, LINES, "cpu", {})

    assert set(times) == {"last"}
    assert all(
        set(values) == {"tokens_per_second", "latency", "memory"}
        for values in times.values()
    )
    assert all(value > 0 for values in times.values() for value in values.values())
    assert len(causes) == 1
    assert causes[0].startswith("broken: speed and memory could not be measured: ")
    assert "config.json" in causes[0]


@pytest.mark.parametrize(
    ("module", "content", "cause"),
    [
        ("torch", "raise ImportError('no torch')", "ImportError: no torch"),
        ("torch", "import os; os._exit(9)", "its process ended with status 9"),
        (
            "sitecustomize",
            "print('hello')",
            "its process wrote 'hello' in place of a measurement",
        ),
    ],
)
def test_processes_that_fail_are_named(
    module: str,
    content: str,
    cause: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the packages of a notebook were not those of the processes that it starts."""
    runs = {"one": folder(tmp_path / "one", end=0.5)}
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / f"{module}.py").write_text(content)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    started = next(
        kind for kind in subprocess.Popen.__mro__ if kind.__module__ == "subprocess"
    )
    # Not forked from a process that has all packages.
    monkeypatch.setattr(subprocess, "Popen", started)
    with time_limit():
        times, causes = measure_speed(runs, LINES, "cpu", {})

    assert times == {}
    assert causes == [f"one: speed and memory could not be measured: {cause}"]
