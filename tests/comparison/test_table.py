"""The table that `regard compare` prints."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from sample import make_comparison, with_gains

import regard.comparison
from regard.cli import main
from regard.comparison.result import Lead


@pytest.mark.parametrize(
    ("gains", "test", "line"),
    [
        (
            [(-1.0, 0.001), (3.0, 0.001), (2.5, 0.2)],
            "Welch",
            "BLEU: +1.50 (−2.50 to 5.00, Welch's p 0.062; 1 of 3 runs significant this way)",
        ),
        (
            [(-2.0, 0.001), (-3.0, 0.003), (0.5, 0.001)],
            "Welch",
            "BLEU: −1.50 (−2.50 to 5.00, Welch's p 0.062; 2 of 3 runs significant this way)",
        ),
        (  # the first run has p < 0.05 and an interval that contains 0
            [(0.5, 0.001), (3.0, 0.001), (2.5, 0.2)],
            "Welch",
            "BLEU: +2.00 (−2.50 to 5.00, Welch's p 0.062; 1 of 3 runs significant this way)",
        ),
        (
            [(1.0, 0.0123)],
            "paired bootstrap",
            "BLEU: +1.00 (−2.50 to 5.00, paired bootstrap p 0.062)",
        ),
    ],
)
def test_differences_and_the_summary_of_the_report_are_printed(
    gains: list[tuple[float, float]],
    test: Literal["Welch", "paired bootstrap"],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Runs are counted in the direction of the means, not of the first seed."""
    comparison = make_comparison(sentences=4, systems=2, seeds=len(gains))
    lead = Lead(gains[0][0], -2.5, 5.0, 0.062, test)
    comparison = with_gains(comparison, "rnn-attention", gains, lead)
    monkeypatch.setattr(regard.comparison, "compare", lambda **_: comparison)
    command = f"compare a b --test-source x --test-target y --out {tmp_path / 'out'}"

    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert not ended.value.code

    printed = capsys.readouterr()
    heading, first, second, *others = printed.out.splitlines()
    mean = comparison.systems[1].scores[0]
    assert heading.split()[:2] == ["BLEU", "95"]
    assert first.startswith("rnn-no-attention ")
    assert f" {mean.low:.2f} to {mean.high:.2f}  " in second
    assert others[0] == f"rnn-attention − rnn-no-attention, {line}"
    assert others[3:] == [sentence.en for sentence in comparison.summary]

    is_explained = "each against the baseline's of the same seed" in printed.err
    assert is_explained == (len(gains) > 1)
