"""Findings of an experiment as data: tables, one graph and a verdict, every text in English and
Korean.
"""

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
        *(
            "model",
            "all",
            "source_words",
            "by_length",
            "after_training",
            "loss",
            "updates",
            "milliseconds",
            "board",
        ),
        *(
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
        ),
        *("at_length", "on_the_way", "own", "shipped", "alone", "shifted"),
    ),
)
"""Texts that several experiments have: labels of tables and plots, outcomes with their reasons,
summary of training.
"""
OUTCOMES = LABELS.table("outcomes")


@dataclass(frozen=True)
class Part:
    """Part of a claim: whether it holds, the reason with its numbers, and what would change
    that.
    """

    outcome: Outcome
    claim: Text
    reason: Text
    change: Text


@dataclass(frozen=True)
class Verdict:
    """Verdict on a claim: on each of its parts, and perhaps numbers besides."""

    parts: tuple[Part, ...]
    text: Text | None = None

    @property
    def outcome(self) -> Outcome:
        """Outcome of the claim: it holds if every part does, and does not if one does not."""
        outcomes = {part.outcome for part in self.parts}
        return (
            "contradicted"
            if "contradicted" in outcomes
            else "undecided"
            if "undecided" in outcomes
            else "holds"
        )


@dataclass(frozen=True)
class Table:
    """A table; the first column names the rows. `shades`: how dark each cell behind it is drawn,
    from 0 to 9.
    """

    title: Words
    columns: tuple[Words, ...]
    rows: tuple[tuple[Words, ...], ...]
    shades: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Curve:
    """One line of a plot: (x, y) points. `paint`: number of its colour, if not its place among the
    curves.
    """

    name: Words
    points: tuple[tuple[float, float], ...]
    paint: int | None = None


@dataclass(frozen=True)
class Plot:
    """One pair of axes with its curves. With `categories`, x counts them from 0; `guide` is a thin
    line behind.
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
        panels = [
            Panel(
                words_by(plot.title, language),
                words_by(plot.x_label, language),
                tuple(
                    Series(words_by(c.name, language), c.points, paint=c.paint)
                    for c in plot.curves
                ),
                tuple(words_by(category, language) for category in plot.categories),
                plot.guide,
            )
            for plot in self.plots
        ]
        return Chart(
            title, tuple(panels), self.caption.by(language), self.scale, self.columns
        )


@dataclass(frozen=True)
class Findings:
    """All that an experiment found. `remarks`: what a reader should know besides, such as a slip of
    the notes.
    """

    verdict: Verdict
    tables: tuple[Table, ...]
    graph: Graph
    remarks: tuple[Text, ...] = ()
