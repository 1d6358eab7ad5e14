"""The report of a run: the meaning of its score, kinds of lines, and the step that promises
most.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics.chrf import CHRF

from regard.evaluation.training_report import (
    SHOWN,
    TrainingReport,
    make_report,
    render_report,
)

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


def journal(
    *chrf: float, loss: float = 2.0, train: float = 1.9, every: int = 100
) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [
        {"event": "train", "update": every, "cross_entropy": train}
    ]
    valid = (
        {"event": "valid", "update": every * n, "chrf": score, "loss": loss}
        for n, score in enumerate(chrf, 1)
    )

    return [*events, *valid]


def report_of(
    events: list[dict[str, Any]],
    outputs: list[str] = REFERENCES,
    by_patience: bool = False,
) -> TrainingReport:
    run = Path("my run")
    return make_report(run, events, by_patience, SOURCES, REFERENCES, outputs)


@pytest.mark.parametrize(
    ("events", "by_patience", "advice", "updates"),
    [
        (
            journal(5, 10, 15, 20),
            False,
            "chrF rose by 5.0 in the last 100 updates",
            800,
        ),
        (journal(5), False, "train longer, as the run was short", 200),
        (journal(5, 5, 5, 5, every=20), False, "as the run was short", 160),
        (journal(5, 20, 20, 20), False, "a larger model may", 0),
        (journal(5, 10, 15, 20), True, "a larger model may", 0),
        (
            journal(5, 20, 20, 20, train=0.5),
            False,
            "more pairs would help most: the loss is 1.5 nats",
            0,
        ),
    ],
)
def test_the_next_step_follows_from_the_curve(
    events: list[dict[str, Any]], by_patience: bool, advice: str, updates: int
) -> None:
    report = report_of(events, by_patience=by_patience)
    assert advice in report.advice
    assert report.lines()[1].startswith(f"next: {report.advice}")

    command = f"regard train --out 'my run' --resume --set training.updates={updates}"
    assert report.command == (command if updates else "")


def test_a_journal_that_was_lost_costs_the_curve_alone() -> None:
    report = report_of([])
    assert "the journal holds no validation" in report.advice
    assert "<svg" not in render_report(report, "run", [], [])


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
    report = make_report(Path("run"), journal(5), False, sources, outputs, outputs)
    kinds = "placeholders, tags, addresses and numbers"
    assert report.kept == f"lines whose {kinds} all came back, with no others: 1 of 3"
    assert report.lines()[2] == report.kept

    page = render_report(report, "run", journal(5), [])
    assert "Lines whose placeholders, tags, " in page

    without = make_report(Path("run"), journal(5), False, ["a"], ["b"], ["b"])
    assert len(without.lines()) == 2


def test_the_page_shows_the_best_and_the_worst_once_and_escapes_them() -> None:
    events = journal(5, 10)
    report = report_of(events, [*REFERENCES[:-1], "<script>alert(1)</script>"])
    page = render_report(report, "run", events, ["  dropped, empty: 2"])
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<tr><td>") == 2 * SHOWN
    assert "dropped, empty: 2" in page

    three = REFERENCES[:3]
    few = make_report(Path("run"), events, False, SOURCES[:3], three, three)
    page = render_report(few, "run", events, [])
    assert page.count("<tr><td>") == 3, "no pair is both best and worst"
