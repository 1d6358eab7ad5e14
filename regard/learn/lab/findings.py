"""Findings of an experiment as data: tables, one graph and a verdict, every text in English and Korean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regard.common.bilingual import Language, Text, Words, join_texts, read_texts, words_by
from regard.visualisation.charts import Chart, Panel, Scale, Series

Outcome = Literal["holds", "partly", "contradicted", "undecided"]

LABELS = read_texts(
    "regard.learn.lab",
    "labels.toml",
    (
        *("model", "failed", "all", "source_words", "by_length", "after_training", "loss", "updates", "milliseconds"),
        *("trained", "outcomes"),
    ),
)
"""Texts that several experiments have: labels of tables and plots, outcomes, and the summary of training."""
OUTCOMES = LABELS.table("outcomes")


@dataclass(frozen=True)
class Verdict:
    """Verdict on a claim, in the claim's own words, with the numbers behind it."""

    outcome: Outcome
    text: Text


@dataclass(frozen=True)
class Table:
    """A table; the first column names the rows."""

    title: Text
    columns: tuple[Words, ...]
    rows: tuple[tuple[Words, ...], ...]


@dataclass(frozen=True)
class Curve:
    """One line of a plot: (x, y) points, with an optional (low, high) interval for each.

    `paint`: number of its colour, if not its place among the curves.
    """

    name: Words
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float], ...] | None = None
    paint: int | None = None


@dataclass(frozen=True)
class Plot:
    """One pair of axes with its curves. With `categories`, x counts them from 0; `guide` is a thin line behind."""

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
        panels = [
            Panel(
                words_by(plot.title, language),
                words_by(plot.x_label, language),
                tuple(Series(words_by(c.name, language), c.points, c.band, paint=c.paint) for c in plot.curves),
                tuple(words_by(category, language) for category in plot.categories),
                plot.guide,
            )
            for plot in self.plots
        ]
        return Chart(title, tuple(panels), self.caption.by(language), self.scale, self.columns)


@dataclass(frozen=True)
class Findings:
    """All that an experiment found. `remarks`: what a reader should know besides, such as a slip of the notes."""

    verdict: Verdict
    tables: tuple[Table, ...]
    graph: Graph
    remarks: tuple[Text, ...] = ()


def interval(value: float, low: float, high: float, digits: int = 1) -> str:
    """Write a value with its interval, if it has one."""
    if low == value == high:
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def listed(items: Sequence[Text]) -> Text:
    """Join texts for a sentence: with "and" before the last in English, by commas in Korean."""
    if len(items) < 2:
        return join_texts(items, "")
    *first, last = items
    return Text(f"{join_texts(first, ', ').en} and {last.en}", join_texts(items, ", ").ko)


def judge(holds: bool, partly: bool = False) -> Outcome:
    """Return the outcome for a claim that holds, that holds in part, or else is contradicted."""
    return "holds" if holds else "partly" if partly else "contradicted"
