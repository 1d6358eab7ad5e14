"""Directions: a unidirectional and a bidirectional recurrent encoder of equal size."""

from __future__ import annotations

from regard.learn.lab.bench import LONG, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import length_plot, length_table, text_scores
from regard.learn.lab.models import recurrent
from regard.learn.lab.verdicts import above

TEXTS = experiment_texts("directions", "names", "parts")
NAMES = TEXTS.table("names")


def run(bench: Bench) -> Findings:
    """Train three models: with a unidirectional encoder of size 128, with a bidirectional one of
    2 × 64, and with the latter and attention.
    """
    arms = {
        "one": recurrent("no_attention", {"size": 128, "bidirectional": False}),
        "two": recurrent("no_attention"),
        "attention": recurrent(),
    }
    sweep = bench.sweep(
        arms, NAMES, LONG, text_scores(bench, "length-sample"), "length-sample"
    )
    one, two, attention = (sweep.dots(arm) for arm in arms)
    parts = (
        above(two, one, TEXTS["parts.gain"]),
        above(attention, two, TEXTS["parts.rest"]),
    )
    return Findings(
        Verdict(parts),
        (length_table(sweep),),
        Graph((length_plot(sweep),), LABELS["lines"]),
    )
