"""Warm-up: three learning rate schedules.

They are inverse square root with warm-up, constant with warm-up, and constant without.
"""

from __future__ import annotations

from regard.learn.lab.bench import DEEP, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Curve, Findings, Graph, Plot, Verdict
from regard.learn.lab.measures import QUALITY, text_scores
from regard.learn.lab.models import transformer
from regard.learn.lab.verdicts import above
from regard.training.schedule import ScheduleSettings, learning_rate

TEXTS = experiment_texts("warmup", "names", "parts", "rate")
NAMES = TEXTS.table("names")
RISE = DEEP.updates // 3
SCHEDULES: dict[str, dict[str, object]] = {
    "rise-and-fall": {"kind": "inverse_square_root", "warmup": RISE},
    "warm-constant": {"kind": "constant", "warmup": RISE},
    "constant": {"kind": "constant", "warmup": 0},
}


def run(bench: Bench) -> Findings:
    """Train the published (post-norm) Transformer with three schedules, each at its best rate."""
    arms = {
        name: {**transformer(norm="post", layers=3), "schedule": values}
        for name, values in SCHEDULES.items()
    }
    sweep = bench.sweep(arms, NAMES, DEEP, text_scores(bench))
    dots = {name: sweep.dots(name) for name in arms}
    parts = (
        above(dots["rise-and-fall"], dots["constant"], TEXTS["parts.fixed"]),
        above(dots["warm-constant"], dots["constant"], TEXTS["parts.warm"]),
    )
    curves = []
    for name in arms:
        points = tuple(
            (float(update), _rate(name, sweep.best[name], update))
            for update in range(1, DEEP.updates + 1, 10)
        )
        curves.append(Curve(NAMES[name], points))
    rates = Plot(TEXTS["rate"], LABELS["updates"], tuple(curves))
    plots = (rates, sweep.plot("chrF"))
    return Findings(
        Verdict(parts),
        (sweep.table(LABELS["after_training"], QUALITY),),
        Graph(plots, LABELS["dots"]),
    )


def _rate(name: str, peak: float, update: int) -> float:
    """Return the learning rate of a schedule at an update."""
    settings = ScheduleSettings.parse(
        {**SCHEDULES[name], "peak": peak}, "the experiment"
    )
    # These schedules do not depend on the size; only noam does.
    return learning_rate(settings, update, size=64)
