"""`make gpu` on a machine without a GPU: it is skipped with a sentence, and its checks run, and can
fail, on the CPU.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

pytestmark = pytest.mark.system

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def _run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), *options]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_is_skipped_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", ["gpu.py"])

    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(BENCHMARKS / "gpu.py"), run_name="__main__")

    (line,) = capsys.readouterr().out.splitlines()

    assert ended.value.code == 0
    assert line.startswith("make gpu is skipped: PyTorch finds no GPU")


@pytest.mark.slow
def test_every_check_runs_on_the_cpu() -> None:
    process = _run("--device", "cpu", "--quick")

    assert process.returncode == 0, process.stdout + process.stderr

    laws, train = process.stdout.splitlines()[-2:]

    assert re.fullmatch(
        r"gpu laws (\d+) of \1, decoding (\d+) of \2, training (\d+) of \3, processes not run",
        laws,
    )
    assert re.fullmatch(
        r"gpu train tiny [\d,]+ target tokens/s, [\d.]+% of the matrix rate, [\d,]+ MB",
        train,
    )


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import gpu_checks

    return gpu_checks


def test_a_law_fails_for_a_model_that_computes_something_else(
    checks: ModuleType,
) -> None:
    settings = checks.pairs()[0].values[0]
    for law in (checks.equals_processor, checks.gradients):
        case = checks.Case.of(settings, "cpu", "float32")
        assert law(case) == ""
        with torch.no_grad():
            for parameter in case.model.parameters():
                parameter.mul_(1.1)
        assert "relative distance" in law(case), law.__name__
