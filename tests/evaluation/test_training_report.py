"""The report of a run: the meaning of its score, kinds of lines, and the step that promises
most.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from sacrebleu.metrics.chrf import CHRF

from regard.evaluation.training_report import (
    SHOWN,
    Course,
    TrainingReport,
    make_report,
    next_step,
    render_report,
)
from regard.training.run_record import RunRecord

SOURCES = [
    "Open",
    "SAVE ALL",
    "Delete {count} files",
    "a plain line",
    *(f"line of number {n}" for n in range(30)),
]
REFERENCES = [
    "Öffnen",
    "ALLES SICHERN",
    "{count} Dateien löschen",
    "eine einfache Zeile",
]
REFERENCES += [f"Zeile mit der Nummer {n}" for n in range(30)]


ENOUGH = 10_000


def journal(
    *chrf: float, loss: float = 2.0, train: float = 1.9, every: int = 100
) -> list[dict[str, Any]]:
    """Return events of a run of 10 tokens, 3 seconds and 0.6 of validation an update."""
    events: list[dict[str, Any]] = [
        {"event": "train", "update": every, "cross_entropy": train}
    ]
    valid = (
        {
            "event": "valid",
            "update": every * n,
            "chrf": score,
            "loss": loss,
            "tokens": 10 * every * n,
            "seconds": 3.0 * every * n,
            "validation_seconds": 0.6 * every,
        }
        for n, score in enumerate(chrf, 1)
    )

    return [*events, *valid]


def render(
    report: TrainingReport, events: list[dict[str, Any]], data: Sequence[str] = ()
) -> str:
    record = RunRecord(None, cast(Any, events), update=100)
    return render_report(report, "run", record, "greedy search", data)


def report_of(
    events: list[dict[str, Any]],
    outputs: list[str] = REFERENCES,
    by_patience: bool = False,
) -> TrainingReport:
    course = Course(Path("my run"), cast(Any, events), by_patience, ENOUGH)
    return make_report(course, SOURCES, REFERENCES, outputs)


WRONG = ["falsch"] * len(SOURCES)


@pytest.mark.parametrize(
    ("events", "by_patience", "advice", "budget"),
    [
        # 4,000 of 10,000 tokens in 1,440 seconds: 36 minutes for the other 6,000.
        (
            journal(5, 10, 15, 20),
            False,
            "train about 36 minutes more on this machine, as chrF rose by 5.0 in the last 100 "
            "updates",
            "36m",
        ),
        # 1,000 tokens in 360 seconds: 54 minutes for the other 9,000.
        (
            journal(5),
            False,
            "54 minutes more on this machine, as the run was short",
            "54m",
        ),
        # 100 in 36 seconds: 59.4 minutes for 9,900.
        (journal(5, every=10), False, "about 60 minutes more", "60m"),
        # 9,000 tokens in 54 minutes: 6 for the last 1,000.
        (journal(*range(5, 50, 5)), False, "about 6 minutes more", "6m"),
        # All 10,000 tokens, and five times as many.
        (journal(*range(5, 55, 5)), False, "training was enough for these data", ""),
        (
            journal(*range(5, 55, 5), every=500),
            False,
            "training was enough for these data; a larger model may",
            "",
        ),
        # A short run whose last validation was no better, and one whose was.
        (journal(20, 20, every=10), False, "a larger model may", ""),
        (journal(20, 20.5, every=10), False, "as the run was short", "59m"),
        (journal(5, 20, 20, 20), False, "a larger model may", ""),
        (journal(5, 10, 15, 20), True, "a larger model may", ""),
        (
            journal(5, 20, 20, 20, train=0.5),
            False,
            "more pairs would help most: the loss is 1.5 nats",
            "",
        ),
    ],
)
def test_the_next_step_follows_from_the_curve_and_the_pace(
    events: list[dict[str, Any]], by_patience: bool, advice: str, budget: str
) -> None:
    report = report_of(events, WRONG, by_patience)
    assert advice in report.advice
    assert report.lines()[1].startswith(f"next: {report.advice}")

    command = f"regard train --out 'my run' --resume --budget {budget}"
    assert report.command == (command if budget else "")


def test_a_run_of_which_nobody_knows_what_is_enough_goes_on_by_half() -> None:
    """An hour."""
    course = Course(Path("run"), cast(Any, journal(*range(5, 55, 5))))
    assert next_step(course)[0].startswith("train about 30 minutes more")


@pytest.mark.parametrize(
    ("images", "events", "by_patience", "advice"),
    [
        (60, journal(*range(5, 55, 5)), False, "it has learnt from 60,"),
        (60, journal(5, 20, 20, 20), True, "it has learnt from 60,"),
        (2, journal(5, every=2000), False, "more images with captions"),
        (9000, journal(5, 20, 20, 20, train=0.5), False, "more images would help most"),
        (9000, journal(5, 20, 20, 20), False, "an image encoder that was pretrained"),
        (60, journal(5), False, "train about 54 minutes more"),
    ],
)
def test_a_captioner_that_was_trained_enough_wants_images(
    images: int, events: list[dict[str, Any]], by_patience: bool, advice: str
) -> None:
    course = Course(Path("run"), cast(Any, events), by_patience, ENOUGH, images)
    assert advice in next_step(course)[0]


@pytest.mark.parametrize("events", [journal(5, 10, 15, 20), journal(5), []])
def test_no_step_is_advised_at_the_top(events: list[dict[str, Any]]) -> None:
    """All lines are their references."""
    report = report_of(events)
    assert (report.advice, report.command) == ("", "")
    assert not any(line.startswith("next") for line in report.lines())
    assert "What to do next" not in render(report, events)


def test_a_journal_that_was_lost_costs_the_curve_alone() -> None:
    report = report_of([], WRONG)
    assert "the journal holds no validation" in report.advice
    assert "<svg" not in render(report, [])


def test_lines_are_counted_by_kind_and_by_what_they_are_good_for() -> None:
    outputs = [*REFERENCES[:4], *("" for _ in range(30))]
    report = report_of(journal(5), outputs)
    counts = {kind: count for kind, (count, _) in report.kinds.items()}
    assert counts == {
        "one word": 1,
        "in capitals": 1,
        "with placeholders, tags or digits": 31,
        "several words": 33,
    }
    assert report.kinds["one word"][1] == pytest.approx(100.0)

    chrf = CHRF().corpus_score(outputs, [REFERENCES]).score
    shares = "12% of them exactly the reference and 12% nearly (chrF of 80 or more)"
    meaning = (
        f"chrF {chrf:.1f} on 34 validation lines, {shares}: of no use for drafts yet"
    )
    assert report.meaning == meaning

    whole = report_of(journal(5))
    meaning = "100% nearly (chrF of 80 or more): about so many drafts can stay"
    assert meaning in whole.meaning


def test_lines_whose_spans_came_back_are_counted() -> None:
    sources = ["Open {name}", "in %d days", "10 files", "no span"]
    outputs = ["{name} öffnen", "in Tagen", "10 Dateien {n}", "nichts"]
    report = make_report(
        Course(Path("run"), cast(Any, journal(5))), sources, outputs, outputs
    )
    kinds = "placeholders, tags, addresses and numbers"
    kept = f"lines whose {kinds} all came back, with no others: 1 of 3"
    assert report.notes[0] == kept
    assert kept in report.lines()

    page = render(report, journal(5))
    assert "Lines whose placeholders, tags, " in page

    lines = ["a line of four words"]
    without = make_report(Course(Path("run"), cast(Any, journal(5))), *[lines] * 3)
    assert [line.split(",")[0] for line in without.lines()] == [
        "chrF 100.0 on 1 validation line"
    ]


def test_the_page_shows_the_best_and_the_worst_once_and_escapes_them() -> None:
    events = journal(5, 10)
    report = report_of(events, [*REFERENCES[:-1], "<script>alert(1)</script>"])
    page = render(report, events, ["  dropped, empty: 2"])
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<tr><td>") == 2 * SHOWN
    assert "dropped, empty: 2" in page

    three = REFERENCES[:3]
    few = make_report(Course(Path("run"), cast(Any, events)), SOURCES[:3], three, three)
    page = render(few, events)
    assert page.count("<tr><td>") == 3, "no pair is both best and worst"
