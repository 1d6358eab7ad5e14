"""Attention: quality by sentence length with and without attention (the graph of note 001)."""

from __future__ import annotations

from regard.learn.lab.bench import LONG, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import (
    BY_LENGTH,
    LONGEST,
    SHORTEST,
    length_plot,
    length_table,
    text_scores,
)
from regard.learn.lab.models import recurrent
from regard.learn.lab.sweep import Dots
from regard.learn.lab.verdicts import above, beyond

TEXTS = experiment_texts("attention", "names", "parts", "kept")
NAMES = TEXTS.table("names")
KEPT = 0.8
"""Least ratio of the chrF of the longest to that of the shortest sentences for "not much worse"."""


def run(bench: Bench) -> Findings:
    """Train both models on sentences of uniformly distributed lengths, and translate such ones."""
    arms = {"without": recurrent("no_attention"), "with": recurrent()}
    sweep = bench.sweep(
        arms, NAMES, LONG, text_scores(bench, "length-sample"), "length-sample"
    )

    def without_attention(key: str) -> Dots:
        label = LABELS["at_length"].fill(model=NAMES["without"], words=BY_LENGTH[key])
        return sweep.dots("without", key, label)

    short = without_attention(SHORTEST)
    long = without_attention(LONGEST)
    kept = tuple(
        run.scores.get(LONGEST, 0.0) / max(run.scores.get(SHORTEST, 0.0), 1e-9)
        for run in sweep.chosen("with")
    )
    parts = (
        above(sweep.dots("with"), sweep.dots("without"), TEXTS["parts.better"]),
        above(short, long, TEXTS["parts.falls"]),
        beyond(Dots(TEXTS["kept"], kept), KEPT, TEXTS["parts.stays"]),
    )
    return Findings(
        Verdict(parts),
        (length_table(sweep),),
        Graph((length_plot(sweep),), LABELS["lines"]),
    )
