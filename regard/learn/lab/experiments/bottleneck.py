"""Bottleneck: one vector for the whole sentence, squeezed into fewer and fewer numbers in one and the same model."""

from __future__ import annotations

from regard.learn.lab.bench import LONG, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import BY_LENGTH, LONGEST, SHORTEST, length_plot, length_table, text_scores
from regard.learn.lab.models import recurrent
from regard.learn.lab.verdicts import above

TEXTS = experiment_texts("bottleneck", "size", "parts")
SIZES = (8, 32, 128)
NAMES = {f"vector-{size}": TEXTS["size"].fill(size=size) for size in SIZES}


def run(bench: Bench) -> Findings:
    """Train a model without attention whose vector of 128 numbers passes through 8, 32 or 128 on its way."""
    arms = {name: recurrent("no_attention", bottleneck=size) for name, size in zip(NAMES, SIZES, strict=True)}
    sweep = bench.sweep(arms, NAMES, LONG, text_scores(bench, "length-sample"), "length-sample")
    narrow, *_, wide = NAMES
    short, long = (
        sweep.dots(wide, key, LABELS["at_length"].fill(model=NAMES[wide], words=BY_LENGTH[key]))
        for key in (SHORTEST, LONGEST)
    )
    parts = (
        above(sweep.dots(wide), sweep.dots(narrow), TEXTS["parts.size"]),
        above(short, long, TEXTS["parts.length"]),
    )
    return Findings(Verdict(parts), (length_table(sweep),), Graph((length_plot(sweep),), LABELS["lines"]))
