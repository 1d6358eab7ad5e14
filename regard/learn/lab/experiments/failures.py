"""Failures: the learning rates at which a Transformer learns, by its norm and with or without
warm-up.
"""

from __future__ import annotations

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench, Plan
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import (
    Curve,
    Findings,
    Graph,
    Outcome,
    Part,
    Plot,
    Verdict,
)
from regard.learn.lab.models import transformer
from regard.learn.lab.sweep import Sweep

TEXTS = experiment_texts(
    "failures",
    "caption",
    "norms",
    "warm",
    "cold",
    "names",
    "parts",
    "reason",
    "change",
    "rate",
)
NORMS = TEXTS.table("norms")
NAMES = {
    f"{norm}-{start}": TEXTS["names"].fill(norm=words, start=TEXTS[start])
    for start in ("warm", "cold")
    for norm, words in NORMS.items()
}
PLAN = Plan(updates=240, rates=(5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 16e-3), extra=0, seeds=1)
SHARE = 0.5
"""Least share of the best score of all runs at which a run counts as one that learns."""


def run(bench: Bench) -> Findings:
    """Train sixty Transformers: five norms, with and without warm-up, at six learning rates."""
    arms = {}
    for arm in NAMES:
        norm, _, start = arm.rpartition("-")
        warmup = PLAN.updates // 4 if start == "warm" else 0
        arms[arm] = {**transformer(norm=norm), "schedule": {"warmup": warmup}}
    sweep = bench.sweep(arms, NAMES, PLAN, lambda _: {})

    learns = counts(sweep)
    parts = (
        _part(TEXTS["parts.place"], learns, "pre-warm", "post-warm"),
        _part(TEXTS["parts.warmup"], learns, "post-warm", "post-cold"),
        _part(TEXTS["parts.norm"], learns, "pre-warm", "none-warm"),
    )
    rates = sorted({run.rate for run in sweep.runs})
    rate_labels = tuple(f"{rate:g}" for rate in rates)
    plots = tuple(
        Plot(TEXTS[start], TEXTS["rate"], _curves(sweep, start, rates), rate_labels)
        for start in ("warm", "cold")
    )
    return Findings(Verdict(parts), (), Graph(plots, TEXTS["caption"]))


def counts(sweep: Sweep) -> dict[str, int]:
    """Return the number of learning rates at which each arm learns."""
    scores = {arm: list(sweep.rates(arm).values()) for arm in sweep.names}
    threshold = SHARE * max(max(values) for values in scores.values())
    return {
        arm: sum(value >= threshold > 0 for value in values)
        for arm, values in scores.items()
    }


def _curves(sweep: Sweep, start: str, rates: list[float]) -> tuple[Curve, ...]:
    """Return the scores of each norm by learning rate, whose index is the x coordinate."""
    curves = []
    for norm, words in NORMS.items():
        scores = sweep.rates(f"{norm}-{start}")
        points = tuple(
            (float(rates.index(rate)), score) for rate, score in scores.items()
        )
        curves.append(Curve(words, points))
    return tuple(curves)


def _part(claim: Text, learns: dict[str, int], better: str, worse: str) -> Part:
    """Judge the claim that one arm learns at more rates than another.

    A difference of one rate decides nothing, since each rate has one seed only.
    """
    better_count = learns[better]
    worse_count = learns[worse]
    difference = better_count - worse_count
    outcome: Outcome = "undecided"
    if difference > 1:
        outcome = "holds"
    elif difference < -1:
        outcome = "contradicted"

    reason = TEXTS["reason"].fill(
        more=NAMES[better],
        less=NAMES[worse],
        a=better_count,
        b=worse_count,
        all=len(PLAN.rates),
    )
    # Number of rates that would have to come out differently to change the outcome.
    changes = abs(difference) - 1 if abs(difference) > 1 else 2 - abs(difference)
    return Part(outcome, claim, reason, TEXTS["change"].fill(count=changes))
