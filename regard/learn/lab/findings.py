"""Findings of an experiment as data: tables, a graph and a verdict, in English and Korean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.common.bilingual import Language, Text, Words, read_texts, words_by
from regard.visualisation.charts import Chart, Panel, Scale, Series

Outcome = Literal["holds", "undecided", "contradicted"]

LABELS = read_texts(
    "regard.learn.lab",
    "labels.toml",
    (
        "model",
        "all",
        "source_words",
        "by_length",
        "after_training",
        "loss",
        "updates",
        "milliseconds",
        "board",
        "trained",
        "outcomes",
        "reasons",
        "changes",
        "many",
        "dots",
        "lines",
        "small",
        "one_seed",
        "full",
        "at_length",
        "on_the_way",
        "own",
        "shipped",
        "alone",
        "shifted",
    ),
)
"""Texts of all experiments: labels of tables and plots, outcomes with their reasons, and facts on
training.
"""
OUTCOMES = LABELS.table("outcomes")


@dataclass(frozen=True)
class Part:
    """Part of a claim with its outcome."""

    outcome: Outcome
    claim: Text
    reason: Text  # with the numbers
    change: Text  # what would change the outcome


@dataclass(frozen=True)
class Verdict:
    """Verdict on a claim: the outcome of each of its parts, and optionally further numbers."""

    parts: tuple[Part, ...]
    text: Text | None = None

    @property
    def outcome(self) -> Outcome:
        """Outcome of the claim: the worst outcome of its parts."""
        outcomes = {part.outcome for part in self.parts}
        if "contradicted" in outcomes:
            return "contradicted"
        if "undecided" in outcomes:
            return "undecided"
        return "holds"


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows.

    `shades` are the background shades of the other cells, from 0 to 9 (darkest).
    """

    title: Words
    columns: tuple[Words, ...]
    rows: tuple[tuple[Words, ...], ...]
    shades: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Curve:
    """A curve of (x, y) points.

    `paint` is the number of its colour; by default, the number of the curve in its plot.
    """

    name: Words
    points: tuple[tuple[float, float], ...]
    paint: int | None = None


@dataclass(frozen=True)
class Plot:
    """A pair of axes with curves.

    With `categories`, x is the index of a category. `guide` is a thin line behind the curves.
    """

    title: Words
    x_label: Words
    curves: tuple[Curve, ...]
    categories: tuple[Words, ...] = ()
    guide: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Graph:
    """The graph of an experiment: plots in rows of `columns`."""

    plots: tuple[Plot, ...]
    caption: Text
    scale: Scale = "linear"
    columns: int = 1

    def chart(self, title: str, language: Language) -> Chart:
        """Make the chart in one of the languages."""
        panels = tuple(_panel(plot, language) for plot in self.plots)
        return Chart(title, panels, self.caption.by(language), self.scale, self.columns)


def _panel(plot: Plot, language: Language) -> Panel:
    series = tuple(
        Series(words_by(curve.name, language), curve.points, paint=curve.paint)
        for curve in plot.curves
    )
    return Panel(
        words_by(plot.title, language),
        words_by(plot.x_label, language),
        series,
        tuple(words_by(category, language) for category in plot.categories),
        plot.guide,
    )


@dataclass(frozen=True)
class Findings:
    """Results of an experiment; `remarks` are for the reader, such as an error in the notes."""

    verdict: Verdict
    tables: tuple[Table, ...]
    graph: Graph
    remarks: tuple[Text, ...] = ()
