"""Bottleneck: quality by the size of the one vector that represents the source sentence."""

from __future__ import annotations

from regard.learn.lab.bench import RECURRENT, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import BY_LENGTH, length_plot, length_table, text_scores
from regard.learn.lab.models import recurrent
from regard.learn.lab.sweep import Dots
from regard.learn.lab.verdicts import above

TEXTS = experiment_texts("bottleneck", "size", "parts")
SIZES = (8, 32, 128)
KEYS = tuple(BY_LENGTH)[:3]  # the lists have at most 12 words
NAMES = {f"vector-{size}": TEXTS["size"].fill(size=size) for size in SIZES}


def run(bench: Bench) -> Findings:
    """Train models without attention whose vector of 128 numbers is projected to 8, 32 or 128
    numbers and back.
    """
    arms = {
        name: {
            **recurrent("no_attention", bottleneck=size),
            "tokenizer": {"kind": "whitespace"},
        }
        for name, size in zip(NAMES, SIZES, strict=True)
    }
    sweep = bench.sweep(arms, NAMES, RECURRENT, text_scores(bench, "lists"), "lists")
    narrow, *_, wide = NAMES

    def widest(key: str) -> Dots:
        label = LABELS["at_length"].fill(model=NAMES[wide], words=BY_LENGTH[key])
        return sweep.dots(wide, key, label)

    short = widest(KEYS[0])
    long = widest(KEYS[-1])
    parts = (
        above(sweep.dots(wide), sweep.dots(narrow), TEXTS["parts.size"]),
        above(short, long, TEXTS["parts.length"]),
    )
    return Findings(
        Verdict(parts),
        (length_table(sweep, KEYS),),
        Graph((length_plot(sweep, KEYS),), LABELS["lines"]),
    )
