"""Speed of runs, measured in processes of their own, some of which fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from helpers.small_models import SENTENCES, folder
from helpers.time_limits import time_limit

from regard.evaluation.speed import ROUNDS, measure_speed

pytestmark = pytest.mark.system
LINES = SENTENCES[:4]


def test_a_run_that_cannot_be_measured_does_not_lose_the_others(tmp_path: Path) -> None:
    steps: list[str] = []
    runs = {name: folder(tmp_path / name, end=0.5) for name in ("broken", "last")}
    (runs["broken"] / "config.json").write_text("{}")
    with time_limit():
        times, causes = measure_speed(runs, LINES, "cpu", {}, "auto", steps.append)

    assert set(times) == {"last"}
    timing = times["last"]
    assert len(timing.speeds) == len(timing.latencies) == ROUNDS
    assert min(*timing.speeds, *timing.latencies, timing.memory) > 0
    assert steps[0] == "speed: loading"
    assert steps[1:] == [f"speed: round {n} of {ROUNDS}" for n in range(1, ROUNDS + 1)]
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
