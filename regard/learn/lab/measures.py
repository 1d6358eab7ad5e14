"""Measures of a comparison that verdicts are made of: scores with intervals, differences, and curves by length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from regard.common.bilingual import Text, Words
from regard.comparison import Comparison
from regard.comparison.result import Bucket, SeedScore
from regard.evaluation.bootstrap import paired_bootstrap, student_interval
from regard.evaluation.significance import chrf_difference
from regard.learn.lab.findings import LABELS, Curve, Findings, Graph, Plot, Table, Verdict, interval
from regard.training.journal import read

Key = TypeVar("Key")
Columns = Mapping[Words, str | Mapping[str, str]]
"""Columns of a table of models, by heading: the name of a score, or the cells by model."""
QUALITY: Columns = {"chrF": "chrF", "BLEU": "BLEU"}
"""The scores of translations, as columns of a table."""


@dataclass(frozen=True)
class Contrast:
    """Difference of a score between two models, second − first, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """True if the interval does not hold zero."""
        return self.low > 0 or self.high < 0

    @property
    def is_better(self) -> bool:
        """True if the second model is clearly better."""
        return self.low > 0

    @property
    def is_worse(self) -> bool:
        """True if the second model is clearly worse."""
        return self.high < 0

    def __str__(self) -> str:
        return f"{self.value:+.1f} [{self.low:+.1f}, {self.high:+.1f}]".replace("-", "−")


def score_of(comparison: Comparison, model: str, name: str = "chrF") -> SeedScore:
    """Return a score of a model over its seeds."""
    (system,) = (system for system in comparison.systems if system.name == model)
    return next(score for score in system.scores if score.name == name)


def score_text(comparison: Comparison, model: str, name: str = "chrF") -> str:
    """Write a score of a model with its interval."""
    score = score_of(comparison, model, name)
    return interval(score.mean, score.low, score.high)


def score_or_failed(comparison: Comparison, model: str, name: str = "chrF") -> Words:
    """Write a score of a model with its interval, or that it did not learn."""
    is_known = any(system.name == model for system in comparison.systems)
    return score_text(comparison, model, name) if is_known else LABELS["failed"]


def contrast(comparison: Comparison, first: str, second: str, name: str = "chrF") -> Contrast:
    """Compare two models: by Student's interval of the differences of equal seeds, which hold for other seeds too.

    With one seed, by the paired bootstrap over sentences (chrF) or images (CIDEr-D).
    """
    runs = {system.name: [comparison.run(run) for run in system.runs] for system in comparison.systems}
    pairs = list(zip(runs[first], runs[second], strict=True))
    if len(pairs) == 1:
        ((before, after),) = pairs
        if comparison.task == "captions":
            difference = paired_bootstrap(before.sentence_scores, after.sentence_scores)
            return Contrast(difference.difference, difference.low, difference.high)
        references = list(zip(*comparison.test.references, strict=True))
        return Contrast(*chrf_difference(before.outputs, after.outputs, references))
    values = []
    for one, other in pairs:
        scores = [run.score(name) for run in (one, other)]
        values.append(sum(sign * score.value for sign, score in zip((-1, 1), scores, strict=True) if score is not None))
    return Contrast(*student_interval(values))


def known_contrasts(comparison: Comparison, pairs: Mapping[Key, tuple[str, str]]) -> dict[Key, Contrast]:
    """Compare pairs of models in chrF, by key, without pairs in which a model failed."""
    known = {system.name for system in comparison.systems}
    return {key: contrast(comparison, *pair) for key, pair in pairs.items() if known.issuperset(pair)}


def by_length(comparison: Comparison) -> Mapping[str, tuple[Bucket, ...]]:
    """Return the quality of each model by the length of the source."""
    return next(part for part in comparison.breakdowns if part.key == "length").systems


def length_findings(comparison: Comparison, names: Mapping[str, Words], verdict: Verdict, caption: Text) -> Findings:
    """Return findings with a table and a graph of quality by the length of the source."""
    buckets = by_length(comparison)
    labels = tuple(part.label for part in next(iter(buckets.values())))
    rows = tuple(
        (words, *(f"{part.value:.1f}" for part in buckets[name]), score_text(comparison, name))
        for name, words in names.items()
    )
    curves = tuple(
        Curve(
            words,
            tuple((float(labels.index(part.label)), part.value) for part in buckets[name]),
            tuple((part.low, part.high) for part in buckets[name]),
        )
        for name, words in names.items()
    )
    table = Table(LABELS["by_length"], (LABELS["model"], *labels, LABELS["all"]), rows)
    return Findings(verdict, (table,), Graph((Plot("chrF", LABELS["source_words"], curves, labels),), caption))


def score_table(
    title: Text,
    comparison: Comparison,
    names: Mapping[str, Words],
    columns: Columns = QUALITY,
    first: Words = LABELS["model"],
) -> Table:
    """Return a table with a row for each model, below the heading `first`; scores say of a model that it failed."""

    def cell(model: str, column: str | Mapping[str, str]) -> Words:
        return score_or_failed(comparison, model, column) if isinstance(column, str) else column[model]

    rows = ((words, *(cell(name, column) for column in columns.values())) for name, words in names.items())
    return Table(title, (first, *columns), tuple(rows))


def score_curve(name: Words, comparison: Comparison, models: Sequence[str], score: str = "chrF") -> Curve:
    """Return the score of models over categories 0, 1, …; a model that failed has no point."""
    known = {system.name for system in comparison.systems}
    values = [(place, score_of(comparison, model, score)) for place, model in enumerate(models) if model in known]
    points = tuple((float(place), value.mean) for place, value in values)
    return Curve(name, points, tuple((value.low, value.high) for _, value in values))


def score_plot(comparison: Comparison, names: Mapping[str, Words], score: str = "chrF") -> Plot:
    """Return a plot with a place for each model, and its score with its interval; no line joins them."""
    curves = []
    for place, name in enumerate(names):
        curve = score_curve(score, comparison, [name], score)
        points = tuple((float(place), value) for _, value in curve.points)
        if points:
            curves.append(replace(curve, points=points, paint=0))
    return Plot(score, "", tuple(curves), tuple(names.values()))


def validations(folder: Path, name: str) -> tuple[tuple[float, float], ...]:
    """Return a validation score over updates, from the journal of a run."""
    events = [event for event in read(folder / "journal.jsonl") if event["event"] == "valid"]
    return tuple((float(event["update"]), float(event[name])) for event in events if event.get(name) is not None)


def validation_plot(title: Words, runs: Mapping[str, Sequence[Path]], names: Mapping[str, Words], score: str) -> Plot:
    """Return a plot of a validation score over updates, with the mean of each model that learned."""
    curves = (
        mean_curve(words, [validations(folder, score) for folder in runs[name]])
        for name, words in names.items()
        if name in runs
    )
    return Plot(title, LABELS["updates"], tuple(curves))


def mean_curve(name: Words, curves: Sequence[Sequence[tuple[float, float]]]) -> Curve:
    """Return the mean of curves of equal x; if they are several, with (lowest, highest) at each point."""
    points, band = [], []
    for places in zip(*curves, strict=True):
        ys = [y for _, y in places]
        points.append((places[0][0], sum(ys) / len(ys)))
        band.append((min(ys), max(ys)))
    return Curve(name, tuple(points), tuple(band) if len(curves) > 1 else None)
