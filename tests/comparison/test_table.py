"""The table that `regard compare` prints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sample import make_comparison

import regard.comparison
from regard.cli import main
from regard.comparison import Comparison


def _with(comparison: Comparison, system: str, gains: list[tuple[float, float]]) -> Comparison:
    """Give each run of a system a gain in BLEU over the baseline's run of the same seed, and its
    p-value.
    """
    runs = {run.name: run for run in comparison.runs}
    of_system = {other.name: other for other in comparison.systems}
    means = {}
    for seed, (gain, p) in enumerate(gains):
        name = of_system[system].runs[seed]
        base = runs[of_system[comparison.baseline].runs[seed]]
        bleu, *others = runs[name].scores
        base_bleu = base.score("BLEU")
        assert base_bleu is not None
        means[name] = base_bleu.value + gain
        runs[name] = replace(
            runs[name], scores=(replace(bleu, value=means[name], p=p, against=base.name), *others)
        )
    first, *rest = of_system[system].scores
    mean = sum(means.values()) / len(means)
    changed = replace(of_system[system], scores=(replace(first, mean=mean), *rest))
    systems = tuple(changed if other.name == system else other for other in comparison.systems)
    return replace(comparison, systems=systems, runs=tuple(runs.values()))


@pytest.mark.parametrize(
    ("gains", "cell"),
    [
        ([(-1.0, 0.001), (3.0, 0.001), (2.5, 0.2)], "1 of 3"),
        ([(-1.0, 0.001), (3.0, 0.3), (2.5, 0.2)], "0 of 3"),
        ([(1.0, 0.001), (3.0, 0.003), (2.5, 0.049)], "3 of 3"),
        ([(-2.0, 0.001), (-3.0, 0.003), (0.5, 0.001)], "2 of 3"),
        ([(1.0, 0.0123)], "0.0123"),
    ],
)
def test_p_belongs_to_the_mean_beside_it(
    gains: list[tuple[float, float]],
    cell: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not to the first seed, in which a system may be worse, with p = 0.001, that is better on
    average.
    """
    comparison = make_comparison(sentences=4, systems=2, seeds=len(gains))
    baseline, other = (system.name for system in comparison.systems)
    comparison = _with(comparison, other, gains)
    monkeypatch.setattr(regard.comparison, "compare_request", lambda *_: comparison)
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "compare",
                "a",
                "b",
                "--test-source",
                "x",
                "--test-target",
                "y",
                "--out",
                str(tmp_path / "out"),
            ]
        )
    assert not ended.value.code
    printed = capsys.readouterr()
    heading, first, second = printed.out.splitlines()
    end = heading.index(" p ") + 2
    assert first[:end].split()[0] == baseline
    assert first[end - 8 : end].strip() == "", "nothing speaks for or against the baseline itself"
    assert second[:end].endswith(f" {cell}")
    assert ("runs differ from the baseline's of the same seed" in printed.err) == (len(gains) > 1)
