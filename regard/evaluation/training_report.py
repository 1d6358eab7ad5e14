"""Report of a training run for people: what its score means, translations, kinds of lines, and what
to do next.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from sacrebleu.metrics.chrf import CHRF

from regard.common.counting import counted
from regard.data.spans import differing_spans, find_spans
from regard.evaluation.length_buckets import LengthBucket, by_length
from regard.visualisation import Chart, Panel, Series, draw_svg
from regard.visualisation.charts import layout_chart
from regard.visualisation.template import make_page

PAGE = "report.html"
SHOWN = 10
"""Good and bad translations that are shown."""
USABLE, NEARLY = 25.0, 80.0
"""Corpus chrF below which a model is of no use for drafts; chrF of a line that is nearly its
reference.
"""
RISING, GAP, SHORT = 1.0, 1.0, 200
"""Gain of chrF in the last quarter by which a run still rises; nats a token between losses; updates
of a short run.
"""
KINDS: dict[str, Callable[[str], bool]] = {
    "one word": lambda line: len(line.split()) == 1,
    "in capitals": lambda line: line.isupper() and len(line) > 1,
    "with placeholders, tags or digits": lambda line: bool(find_spans(line)),
    "several words": lambda line: len(line.split()) > 1,
}
"""Kinds of source lines, by which chrF is broken down; a line may be of several."""


@dataclass(frozen=True)
class TranslatedPair:
    """A validation pair with its translation, and the chrF of that."""

    source: str
    reference: str
    output: str
    chrf: float


@dataclass(frozen=True)
class TrainingReport:
    """Report of a run: the sentence on its score, the next step with its command, and all that the
    page shows.
    """

    meaning: str
    advice: str
    command: str
    pairs: tuple[TranslatedPair, ...]
    buckets: tuple[LengthBucket, ...]
    kinds: dict[str, tuple[int, float]]
    kept: str

    def lines(self) -> list[str]:
        """Return what the command prints of it."""
        step = f"next: {self.advice}" + (f": {self.command}" if self.command else "")
        return [self.meaning, step, *([self.kept] if self.kept else [])]


def make_report(
    out: Path,
    journal: Sequence[Mapping[str, Any]],
    by_patience: bool,
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
) -> TrainingReport:
    """Make the report from the journal of a run, and its translations of validation sources, line
    by line.
    """
    metric = CHRF()
    rows = zip(sources, references, outputs, strict=True)
    pairs = tuple(
        TranslatedPair(*row, float(metric.sentence_score(row[2], [row[1]]).score))
        for row in rows
    )
    kinds = {}
    for kind, holds in KINDS.items():
        if chosen := [pair for pair in pairs if holds(pair.source)]:
            score = CHRF().corpus_score(
                [pair.output for pair in chosen], [[pair.reference for pair in chosen]]
            )
            kinds[kind] = len(chosen), float(score.score)
    advice, command = _next_step(out, journal, by_patience)
    buckets = tuple(by_length(sources, outputs, [references]))
    return TrainingReport(
        _meaning(pairs), advice, command, pairs, buckets, kinds, _kept(pairs)
    )


def _meaning(pairs: Sequence[TranslatedPair]) -> str:
    """Return in a sentence what the scores of the lines are good for."""
    chrf = (
        CHRF()
        .corpus_score(
            [pair.output for pair in pairs], [[pair.reference for pair in pairs]]
        )
        .score
    )
    exact = sum(pair.output == pair.reference for pair in pairs) / len(pairs)
    nearly = sum(pair.chrf >= NEARLY for pair in pairs) / len(pairs)
    use = (
        "of no use for drafts yet"
        if chrf < USABLE
        else "about so many drafts can stay nearly as they are"
    )
    return (
        f"chrF {chrf:.1f} on {len(pairs):,} validation lines, {exact:.0%} of them exactly the "
        f"reference and {nearly:.0%} nearly (chrF of {NEARLY:g} or more): {use}"
    )


def _kept(pairs: Sequence[TranslatedPair]) -> str:
    """Return in how many translations spans that are not language are those of the source; empty if
    no line has any.
    """
    chosen = [pair for pair in pairs if differing_spans(pair.source, "")[0]]
    kept = sum(differing_spans(pair.source, pair.output) == ([], []) for pair in chosen)
    kinds = "placeholders, tags, addresses and numbers"
    return (
        f"lines whose {kinds} all came back, with no others: {kept:,} of {len(chosen):,}"
        if chosen
        else ""
    )


def validations(journal: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the validations of a journal that have a score."""
    return [
        event
        for event in journal
        if event["event"] == "valid" and event.get("chrf") is not None
    ]


def _next_step(
    out: Path, journal: Sequence[Mapping[str, Any]], by_patience: bool
) -> tuple[str, str]:
    """Return the step that promises most, and its command, if it is one."""
    valid = validations(journal)
    train = [event for event in journal if event["event"] == "train"]
    if not valid:
        return (
            "train on: the journal holds no validation, by which to see whether the score still "
            "rises",
            "",
        )
    last = valid[-1]
    early = [
        event for event in valid if event["update"] <= 0.75 * last["update"]
    ] or valid[:1]
    gain = last["chrf"] - max(event["chrf"] for event in early)
    updates = last["update"] - early[-1]["update"]
    if not by_patience and (
        gain >= RISING or len(valid) == 1 or last["update"] < SHORT
    ):
        why = (
            f"chrF rose by {gain:.1f} in the last {counted(updates, 'update')}"
            if gain >= RISING
            else "the run was short"
        )
        command = (
            f"regard train --out {shlex.quote(str(out))} --resume --set "
            f"training.updates={2 * last['update']}"
        )
        return f"train longer, as {why}", command
    gap = (last.get("loss") or 0.0) - (
        (train[-1].get("cross_entropy") if train else None) or math.inf
    )
    if gap >= GAP:
        return (
            f"more pairs would help most: the loss is {gap:.1f} nats a token lower on the text it "
            "was trained on",
            "",
        )
    return (
        "the score no longer rises; a larger model may, if there is time: --preset "
        "transformer-small",
        "",
    )


def render_report(
    report: TrainingReport,
    name: str,
    journal: Sequence[Mapping[str, Any]],
    data: Sequence[str],
) -> str:
    """Render the page; `data`: lines on the corpora and on what was dropped of them."""
    points = tuple((event["update"], event["chrf"]) for event in validations(journal))
    curve = []
    if len(points) > 1:
        curve = [
            Chart(
                "",
                (
                    Panel(
                        "chrF on validation pairs", "updates", (Series("chrF", points),)
                    ),
                ),
            )
        ]
    test = next(
        (event for event in reversed(journal) if event["event"] == "test"), None
    )
    ranked = sorted(report.pairs, key=lambda pair: pair.chrf, reverse=True)
    good = ranked[:SHOWN]
    return make_page(
        "regard.evaluation",
        "training_report.html",
        run=name,
        report=report,
        test=test,
        curves=[Markup(draw_svg(layout_chart(chart), styled=False)) for chart in curve],
        examples={
            "Ten of the best": good,
            "Ten of the worst": ranked[len(good) :][-SHOWN:],
        },
        data=data,
    )
