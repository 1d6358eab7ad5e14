"""Residual: deep Transformers with and without residual connections."""

from __future__ import annotations

from regard.learn.lab.bench import DEEP, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import QUALITY, text_scores
from regard.learn.lab.models import transformer
from regard.learn.lab.verdicts import above

TEXTS = experiment_texts("residual", "names", "parts", "depth")
SHALLOW = 1
DEEPEST = 4
NAMES = {
    f"{name}-{depth}": TEXTS["depth"].fill(name=words, depth=depth)
    for name, words in TEXTS.table("names").items()
    for depth in (SHALLOW, DEEPEST)
}


def run(bench: Bench) -> Findings:
    """Train Transformers of 1 + 1 and 4 + 4 layers, with and without residual connections."""
    arms = {
        arm: transformer(layers=int(arm[-1]), residual=arm.startswith("on"))
        for arm in NAMES
    }
    sweep = bench.sweep(arms, NAMES, DEEP, text_scores(bench))
    deep_with = sweep.dots(f"on-{DEEPEST}")
    deep_without = sweep.dots(f"off-{DEEPEST}")
    shallow_without = sweep.dots(f"off-{SHALLOW}")
    parts = (
        above(deep_with, deep_without, TEXTS["parts.deep"]),
        above(shallow_without, deep_without, TEXTS["parts.falls"]),
    )
    table = sweep.table(LABELS["after_training"], QUALITY)
    return Findings(
        Verdict(parts), (table,), Graph((sweep.plot("chrF"),), LABELS["dots"])
    )
