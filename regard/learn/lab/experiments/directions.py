"""Directions: a recurrent encoder that reads in one direction, or in both, of equal size."""

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
    """Train an encoder of 128 forwards, one of 64 forwards and 64 backwards, and the latter with
    attention.
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
