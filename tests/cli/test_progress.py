"""Progress while a long file is translated."""

from __future__ import annotations

import pytest

from regard.cli import progress
from regard.cli.progress import LineReporter
from regard.common.counting import format_duration


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock by one that the test sets."""
    time_now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: time_now[0])
    return time_now


def test_plain_lines_are_printed_every_thirty_seconds(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """Short work prints nothing."""
    with LineReporter(100, 0, hidden=False) as report:
        clock[0] += 20
        report(100)
    assert capsys.readouterr().err == ""

    with LineReporter(10_000, 2_000, hidden=False) as report:
        for second in range(1, 81):
            clock[0] += 1
            report(2_000 + 100 * second)
        report.warn("in, line 5: long")
    assert capsys.readouterr().err.splitlines() == [
        "line 5,000/10,000 · 100 sentences/s · 50 s left",
        "line 8,000/10,000 · 100 sentences/s · 20 s left",
        "warning: in, line 5: long",
        "10,000 lines in 1 min 20 s · 100 sentences/s",
    ]


def test_a_terminal_shows_a_live_line(
    clock: list[float],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    with LineReporter(None, 0, hidden=False) as report:
        clock[0] += 2
        report(3_000)
    assert capsys.readouterr().err == "\r\x1b[Kline 3,000 · 1,500 sentences/s\r\x1b[K"

    with LineReporter(None, 0, hidden=True) as report:
        report(3_000)
    assert capsys.readouterr().err == "", "results are on the same terminal"


VALUES = {
    "update": 3,
    "updates": None,
    "seconds_left": 90.0,
    "epoch": 0,
    "tokens_per_second": 1200.0,
}


def test_training_shows_its_first_progress_and_then_each_event(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress.TrainReporter() as report:
        report("progress", VALUES)
        report("progress", {**VALUES, "update": 4})
        report("train", {**VALUES, "update": 50, "cross_entropy": 6.5})
    assert capsys.readouterr().err.splitlines() == [
        "update 3 · epoch 1 · 1,200 tokens/s · 1 min 30 s left",
        "update 50 · epoch 1 · loss 6.500 · 1,200 tokens/s · 1 min 30 s left",
    ]


def test_on_a_terminal_progress_is_a_live_line_with_the_last_loss(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    with progress.TrainReporter() as report:
        report("train", {**VALUES, "update": 50, "updates": 400, "cross_entropy": 6.5})
        report("progress", {**VALUES, "update": 51, "updates": 400})
    shown = capsys.readouterr().err.split("\r\x1b[K")
    assert (
        shown[-2]
        == "update 51/400 · epoch 1 · loss 6.500 · 1,200 tokens/s · 1 min 30 s left"
    )
    assert shown[-1] == "", "the line is removed at the end"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.34, "0.3 s"),
        (29.2, "29 s"),
        (298.8, "4 min 59 s"),
        (300.0, "5 min"),
        (3900.0, "1 h 05 min"),
    ],
)
def test_durations_are_as_people_say_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_budget_is_told_in_minutes_and_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress.TrainReporter() as report:
        report("budget", {"update": 1200, "updates": 1200, "minutes": 4.98})
    line = capsys.readouterr().err
    assert line.startswith("4 min 59 s were 1,200 updates: train.toml has this number")
