"""Residual: deep stacks with and without residual connections."""

from __future__ import annotations

from regard.learn.lab.bench import DEEP, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import QUALITY, text_scores
from regard.learn.lab.models import transformer
from regard.learn.lab.verdicts import above

TEXTS = experiment_texts("residual", "names", "parts", "depth")
ONE = 1
FOUR = 4
NAMES = {
    f"{name}-{depth}": TEXTS["depth"].fill(name=words, depth=depth)
    for name, words in TEXTS.table("names").items()
    for depth in (ONE, FOUR)
}


def run(bench: Bench) -> Findings:
    """Train Transformers of 1 and 4 layers a side, with and without residual connections."""
    arms = {
        arm: transformer(layers=int(arm[-1]), residual=arm.startswith("on"))
        for arm in NAMES
    }
    sweep = bench.sweep(arms, NAMES, DEEP, text_scores(bench))
    on, off = (
        {depth: sweep.dots(f"{name}-{depth}") for depth in (ONE, FOUR)}
        for name in ("on", "off")
    )
    parts = (
        above(on[FOUR], off[FOUR], TEXTS["parts.deep"]),
        above(off[ONE], off[FOUR], TEXTS["parts.falls"]),
    )
    table = sweep.table(LABELS["after_training"], QUALITY)
    return Findings(
        Verdict(parts), (table,), Graph((sweep.plot("chrF"),), LABELS["dots"])
    )
