"""The demonstration on sentences reaches its scores; it takes minutes, so it is run by hand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_demonstration_reaches_its_scores_in_both_directions(
    tmp_path: Path,
) -> None:
    command = [
        sys.executable,
        "-m",
        "regard",
        "demo",
        "--out",
        str(tmp_path / "demo"),
        "--quiet",
    ]
    process = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert process.returncode == 0, process.stderr

    output = process.stdout
    test_scores, recombination_scores = (
        [float(n) for n in re.findall(rf"{split} +chrF +([\d.]+)", output)]
        for split in ("test", "recombination")
    )
    alignment_shares = [float(n) for n in re.findall(r"alignment +([\d.]+)%", output)]
    assert len(test_scores) == len(recombination_scores) == len(alignment_shares) == 2
    assert min(test_scores) >= 95
    assert min(recombination_scores) >= 85
    assert min(alignment_shares) >= 80

    for pair in (
        "나는 집에 간다 → I go home",
        "I was eating bread → 나는 빵을 먹고 있었다",
    ):
        assert f"{pair}   right\n" in output

    for page in re.findall(r"attention +(\S+)", output):
        assert "나는" in Path(page).read_text(encoding="utf-8")
    assert re.findall(r"done in [\d.]+ minutes", output)
