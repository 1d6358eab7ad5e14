"""Speed of runs, measured in processes of their own, some of which fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from limits import time_limit
from small import SENTENCES, folder

import regard
from regard.evaluation.speed import measure_speed

pytestmark = pytest.mark.system
LINES = SENTENCES[:4]


def test_a_run_that_cannot_be_measured_does_not_lose_the_others(tmp_path: Path) -> None:
    runs = {name: folder(tmp_path / name, end=0.5) for name in ("first", "broken", "last")}
    (runs["broken"] / "config.json").write_text("{}")
    with time_limit():
        times, causes = measure_speed(runs, LINES, "cpu", {})
    assert set(times) == {"first", "last"}
    assert all(
        set(values) == {"tokens_per_second", "latency", "memory"} for values in times.values()
    )
    assert all(value > 0 for values in times.values() for value in values.values())
    assert len(causes) == 1
    assert causes[0].startswith("broken: speed and memory could not be measured: ")
    assert "config.json" in causes[0]


@pytest.mark.parametrize(
    ("module", "content", "cause"),
    [
        ("torch", "raise ModuleNotFoundError(\"No module named 'torch'\")", "ModuleNotFoundError: No module named 'torch'"),
        ("torch", "import os; os._exit(9)", "its process ended with status 9"),
        ("sitecustomize", "print('hello')", "its process wrote 'hello' in place of a measurement"),
    ],
)  # fmt: skip
def test_a_comparison_keeps_the_rest_if_processes_fail(
    module: str, content: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the packages of a notebook were not those of the processes that it starts."""
    runs = [folder(tmp_path / name, end=end) for name, end in (("one", 0.5), ("two", 0.7))]
    for side in ("source", "target"):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / f"{module}.py").write_text(content)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    started = next(kind for kind in subprocess.Popen.__mro__ if kind.__module__ == "subprocess")
    # Not forked from a process that has all packages.
    monkeypatch.setattr(subprocess, "Popen", started)
    messages: list[str] = []
    with time_limit():
        comparison = regard.compare(
            runs,
            out=tmp_path / "out",
            test_source=tmp_path / "source",
            test_target=tmp_path / "target",
            report=lambda _, values: messages.append(str(values.get("text"))),
        )
    sentences = [
        f"{name}: speed and memory could not be measured: {cause}" for name in ("one", "two")
    ]
    assert comparison.notes[-2:] == tuple(f"{sentence}." for sentence in sentences)
    assert all(
        run.cost is not None and run.cost.weights and run.cost.latency is None
        for run in comparison.runs
    )
    assert all(run.outputs and run.scores for run in comparison.runs)
    assert [message for message in messages if cause in message] == [
        f"{text}; all else is in the report" for text in sentences
    ]
    assert cause.replace("'", "&#39;") in (tmp_path / "out" / "report.html").read_text()
