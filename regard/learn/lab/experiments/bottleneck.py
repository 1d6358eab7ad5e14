"""Bottleneck: one vector for the whole sentence, squeezed into fewer and fewer numbers in one and
the same model.
"""

from __future__ import annotations

from regard.learn.lab.bench import RECURRENT, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import BY_LENGTH, length_plot, length_table, text_scores
from regard.learn.lab.models import recurrent
from regard.learn.lab.verdicts import above

TEXTS = experiment_texts("bottleneck", "size", "parts")
SIZES = (8, 32, 128)
KEYS = tuple(BY_LENGTH)[:3]  # lengths that the lists have
NAMES = {f"vector-{size}": TEXTS["size"].fill(size=size) for size in SIZES}


def run(bench: Bench) -> Findings:
    """Train a model without attention whose vector of 128 numbers passes through 8, 32 or 128 on
    its way.
    """
    words = {"tokenizer": {"kind": "whitespace"}}
    arms = {
        n: {**recurrent("no_attention", bottleneck=size), **words}
        for n, size in zip(NAMES, SIZES, strict=True)
    }
    sweep = bench.sweep(arms, NAMES, RECURRENT, text_scores(bench, "lists"), "lists")
    narrow, *_, wide = NAMES
    short, long = (
        sweep.dots(
            wide, key, LABELS["at_length"].fill(model=NAMES[wide], words=BY_LENGTH[key])
        )
        for key in (KEYS[0], KEYS[-1])
    )
    parts = (
        above(sweep.dots(wide), sweep.dots(narrow), TEXTS["parts.size"]),
        above(short, long, TEXTS["parts.length"]),
    )
    return Findings(
        Verdict(parts),
        (length_table(sweep, KEYS),),
        Graph((length_plot(sweep, KEYS),), LABELS["lines"]),
    )
