"""The table that `regard compare` prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample import make_comparison, with_gains

import regard.comparison
from regard.cli import main


@pytest.mark.parametrize(
    ("gains", "cell"),
    [
        ([(-1.0, 0.001), (3.0, 0.001), (2.5, 0.2)], "1 of 3"),
        ([(-2.0, 0.001), (-3.0, 0.003), (0.5, 0.001)], "2 of 3"),
        ([(1.0, 0.0123)], "0.0123"),
    ],
)
def test_p_belongs_to_the_mean_beside_it(
    gains: list[tuple[float, float | None]],
    cell: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not to the first seed, in which a system may be worse, with p = 0.001, that is better on
    average.
    """
    comparison = make_comparison(sentences=4, systems=2, seeds=len(gains))
    comparison = with_gains(comparison, "rnn-attention", gains)
    monkeypatch.setattr(regard.comparison, "compare", lambda **_: comparison)
    command = f"compare a b --test-source x --test-target y --out {tmp_path / 'out'}"

    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert not ended.value.code

    printed = capsys.readouterr()
    heading, first, second, *leads = printed.out.splitlines()
    end = heading.index(" p ") + 2

    assert first.startswith("rnn-no-attention ")
    assert first[end - 8 : end].strip() == "", (
        "nothing speaks for or against the baseline itself"
    )
    assert second[:end].endswith(f" {cell}")

    assert bool(leads) == (len(gains) > 1)
    if leads:
        assert leads[0] == (
            "rnn-attention − rnn-no-attention, BLEU over seeds: +1.25 "
            "(−2.50 to +5.00, Welch's p 0.062)"
        )

    is_explained = "runs differ from the baseline's of the same seed" in printed.err
    assert is_explained == (len(gains) > 1)
