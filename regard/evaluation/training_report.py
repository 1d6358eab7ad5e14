"""Report of a training run: the meaning of its score, examples, scores by kind of line, and the
next step.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from markupsafe import Markup
from sacrebleu.metrics.chrf import CHRF

from regard.common.arguments import Report
from regard.common.counting import counted
from regard.data.bleu_tokenizer import BleuTokenizer
from regard.data.spans import find_spans
from regard.evaluation.length_buckets import LengthBucket, by_length
from regard.evaluation.text_metrics import corpus_chrf, score_notes
from regard.text.contracts import breaches, code_spans
from regard.training.journal import FEW_LINES, JournalEvent, describe_test, of_kind
from regard.training.run_record import RunRecord
from regard.visualisation import Chart, Panel, Series, draw_svg
from regard.visualisation.charts import layout_chart
from regard.visualisation.template import make_page

SHOWN = 10
"""Number of good, and of bad, translations that the page shows."""
TOP = 95.0
"""Corpus chrF from which on no step would raise the score by much."""
USABLE = 25.0
"""Corpus chrF below which a model is of no use for drafts."""
NO_USE = "of no use for drafts yet"
STEP = "next: "
"""Beginning of the line that advises the next step."""
NEARLY = 80.0
"""chrF of a line from which on it is nearly its reference."""
RISING = 1.0
"""Gain of chrF in the last quarter of a run from which on its score is still rising."""
GAP = 1.0
"""Difference of validation and training loss, in nats a token, from which on more data help."""
SHORT = 200
"""Number of updates below which a run is short."""
FEW_IMAGES = 500
"""Number of training images below which more of them help most."""
MORE_IMAGES = (
    "more images with captions would help most: it has learnt from {:,}, and photographs need some "
    "hundreds at least"
)
KINDS: dict[str, Callable[[str], bool]] = {
    "one word": lambda line: len(line.split()) == 1,
    "in capitals": lambda line: line.isupper() and len(line) > 1,
    "with placeholders, tags or digits": lambda line: bool(find_spans(line)),
    "several words": lambda line: len(line.split()) > 1,
}
"""Kinds of source lines by which chrF is broken down; a line may belong to several."""


def is_usable(chrf: float) -> bool:
    """Return whether a translator with this corpus chrF is of use for drafts."""
    return chrf >= USABLE


@dataclass(frozen=True)
class TranslatedPair:
    """A validation pair with its translation, and the chrF of the translation."""

    source: str
    reference: str
    output: str
    chrf: float


@dataclass(frozen=True)
class RunReport:
    """Report of a run: a sentence on its score, the next step with its command, if there is one,
    and further sentences.
    """

    page: ClassVar[str]
    """Name of its template."""
    meaning: str
    advice: str
    command: str
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the lines that the command prints."""
        step = ": ".join(filter(None, (self.advice, self.command)))
        lines = (self.meaning, f"{STEP}{step}" if step else "", *self.notes)
        return [line for line in lines if line]


@dataclass(frozen=True)
class TrainingReport(RunReport):
    """Report of a translator, with the data of its page."""

    page = "training_report.html"
    pairs: tuple[TranslatedPair, ...]
    buckets: tuple[LengthBucket, ...]
    kinds: dict[str, tuple[int, float]]

    def examples(self) -> dict[str, Sequence[TranslatedPair]]:
        """Return the best and the worst translations."""
        ranked = sorted(self.pairs, key=lambda pair: pair.chrf, reverse=True)
        worst = ranked[SHOWN:][-SHOWN:]
        return {"Ten of the best": ranked[:SHOWN], "Ten of the worst": worst}


@dataclass(frozen=True)
class Course:
    """Course of a run: its folder and journal, whether patience ended it, the target tokens that
    are enough training, 0 if unknown, and the training images of a captioner.
    """

    out: Path
    journal: Sequence[JournalEvent]
    by_patience: bool = False
    enough: float = 0.0
    images: int = 0

    @property
    def has_few_images(self) -> bool:
        """True if a captioner has learnt from few images."""
        return 0 < self.images < FEW_IMAGES


def make_report(
    course: Course,
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
    tokenizer: BleuTokenizer = "13a",
) -> TrainingReport:
    """Make the report from the course of a run and its translations of validation sources.

    `tokenizer`: that of BLEU.
    """
    metric = CHRF()
    rows = zip(sources, references, outputs, strict=True)
    pairs = tuple(
        TranslatedPair(*row, float(metric.sentence_score(row[2], [row[1]]).score))
        for row in rows
    )
    kinds = dict[str, tuple[int, float]]()
    for kind, is_of_kind in KINDS.items():
        selected = [pair for pair in pairs if is_of_kind(pair.source)]
        if selected:
            kinds[kind] = (len(selected), _corpus_chrf(selected))
    advice, command = "", ""
    if _corpus_chrf(pairs) < TOP:
        advice, command = next_step(course)
    notes = (*_kept(pairs), *score_notes(outputs, references, tokenizer))
    buckets = tuple(by_length(sources, outputs, [references]))
    return TrainingReport(
        _meaning(pairs), advice, command, notes, pairs, buckets, kinds
    )


def _corpus_chrf(pairs: Sequence[TranslatedPair]) -> float:
    outputs = [pair.output for pair in pairs]
    references = [pair.reference for pair in pairs]
    return corpus_chrf(outputs, references)


def _meaning(pairs: Sequence[TranslatedPair]) -> str:
    """Explain the scores of the lines in a sentence."""
    chrf = _corpus_chrf(pairs)
    exact = sum(pair.output == pair.reference for pair in pairs) / len(pairs)
    nearly = sum(pair.chrf >= NEARLY for pair in pairs) / len(pairs)
    lines = counted(len(pairs), "validation line")
    use = "about so many drafts can stay nearly as they are"
    if not is_usable(chrf):
        use = NO_USE
    return (
        f"chrF {chrf:.1f} on {lines}, {exact:.0%} of them exactly the "
        f"reference and {nearly:.0%} nearly (chrF of {NEARLY:g} or more): {use}"
    )


def _kept(pairs: Sequence[TranslatedPair]) -> Iterator[str]:
    """Yield how many translations keep the contract of their source, if any source has code."""
    selected = [pair for pair in pairs if code_spans(pair.source)]
    if not selected:
        return
    kept = sum(not breaches(pair.source, pair.output) for pair in selected)
    yield (
        "lines whose placeholders, tags, addresses and numbers all came back, with no others: "
        f"{kept:,} of {len(selected):,}"
    )


def validations(journal: Sequence[JournalEvent]) -> list[JournalEvent]:
    """Return the validations of a journal that have a score."""
    return [
        event for event in of_kind(journal, "valid") if event.get("chrf") is not None
    ]


def next_step(course: Course) -> tuple[str, str]:
    """Return the most promising next step, with its command if it has one."""
    valid = validations(course.journal)
    train = of_kind(course.journal, "train")
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
    is_best = all(event["chrf"] < last["chrf"] for event in valid[:-1])
    is_short = is_best and (len(valid) == 1 or last["update"] < SHORT)
    is_enough = 0 < course.enough <= last.get("tokens", 0)
    if not (course.by_patience or is_enough) and (gain >= RISING or is_short):
        why = "the run was short"
        if gain >= RISING:
            why = f"chrF rose by {gain:.1f} in the last {counted(updates, 'update')}"
        minutes = _minutes_left(valid, course.enough)
        budget = f"{minutes}m"
        time = counted(minutes, "minute")
        if minutes > 120:
            hours = math.ceil(minutes / 60)
            budget = f"{hours}h"
            time = f"{hours} hours"
        return (
            f"train about {time} more on this machine, as {why}",
            f"regard train --out {shlex.quote(str(course.out))} --resume --budget {budget}",
        )
    training_loss = (train[-1].get("cross_entropy") if train else None) or math.inf
    gap = (last.get("loss") or 0.0) - training_loss
    if course.has_few_images:
        return MORE_IMAGES.format(course.images), ""
    if gap >= GAP:
        what = "images" if course.images else "pairs"
        return (
            f"more {what} would help most: the loss is {gap:.1f} nats a token lower on the text it "
            "was trained on",
            "",
        )
    state = "the score no longer rises"
    if is_enough and gain >= RISING:
        state = "training was enough for these data"
    remedy = "a larger model may help, if there is time: --preset transformer-small"
    if course.images:
        remedy = (
            "more images, or an image encoder that was pretrained elsewhere, may help"
        )
    return f"{state}; {remedy}", ""


def _minutes_left(valid: Sequence[JournalEvent], enough: float) -> int:
    """Return the minutes until training is enough by the pace of the run, or half of its time if
    it is unknown what is enough.
    """
    last = valid[-1]
    tokens = max(1, last.get("tokens", 0))
    seconds = last.get("seconds", 0.0)
    seconds += sum(event.get("validation_seconds", 0.0) for event in valid)
    left = enough - tokens if enough else 0.5 * tokens
    return math.ceil(left * seconds / tokens / 60)


def draw_curves(record: RunRecord) -> list[Markup]:
    """Draw chrF by update, if there are two validations."""
    valid = validations(record.events)
    points = tuple((event["update"], event["chrf"]) for event in valid)
    if len(points) < 2:
        return []
    panel = Panel("chrF in validation", "updates", (Series("chrF", points),))
    return [Markup(draw_svg(layout_chart(Chart("", (panel,))), styled=False))]


def render_report(
    report: RunReport,
    name: str,
    record: RunRecord,
    search: str,
    data: Sequence[str],
) -> str:
    """Render the page; `search`: that of the outputs; `data`: lines on the corpora, and on the
    pairs that were dropped.
    """
    return make_page(
        "regard.evaluation",
        report.page,
        run=name,
        report=report,
        record=record,
        search=search,
        describe_test=describe_test,
        few_lines=FEW_LINES,
        curves=draw_curves(record),
        data=data,
    )


def without_advice(report: Report | None) -> Report | None:
    """Return a report that leaves out the advice to train on, for a training that is part of a
    comparison or of a reproduction.
    """
    if report is None:
        return None

    def hear(event: str, values: dict[str, Any]) -> None:
        if not str(values.get("text", "")).startswith(STEP):
            report(event, values)

    return hear
