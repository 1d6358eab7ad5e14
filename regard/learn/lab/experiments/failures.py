"""Failures: at which learning rates a Transformer learns, by its norm, the norm's place, and
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
PLAN = Plan(240, (5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 16e-3), extra=0, seeds=1)
SHARE = 0.5
"""Share of the board's best score from which on a run counts as one that learns."""


def run(bench: Bench) -> Findings:
    """Train sixty Transformers: five norms, with and without warm-up, at six learning rates."""
    arms = {
        arm: {
            **transformer(norm=arm.rpartition("-")[0]),
            "schedule": {"warmup": PLAN.updates // 4 if arm.endswith("warm") else 0},
        }
        for arm in NAMES
    }
    sweep = bench.sweep(arms, NAMES, PLAN, lambda _: {})
    learns = counts(sweep)
    pairs = {
        "place": "pre-warm post-warm",
        "warmup": "post-warm post-cold",
        "norm": "pre-warm none-warm",
    }
    parts = tuple(
        _part(TEXTS[f"parts.{key}"], learns, *pair.split())
        for key, pair in pairs.items()
    )
    rates = sorted({run.rate for run in sweep.runs})
    plots = tuple(
        Plot(
            TEXTS[start],
            TEXTS["rate"],
            _curves(sweep, start, rates),
            tuple(f"{rate:g}" for rate in rates),
        )
        for start in ("warm", "cold")
    )
    return Findings(Verdict(parts), (), Graph(plots, TEXTS["caption"]))


def counts(sweep: Sweep) -> dict[str, int]:
    """Return at how many rates each arm learns."""
    scores = {arm: list(sweep.rates(arm).values()) for arm in sweep.names}
    enough = SHARE * max(max(values) for values in scores.values())
    return {
        arm: sum(value >= enough > 0 for value in values)
        for arm, values in scores.items()
    }


def _curves(sweep: Sweep, start: str, rates: list[float]) -> tuple[Curve, ...]:
    return tuple(
        Curve(
            words,
            tuple(
                (float(rates.index(rate)), y)
                for rate, y in sweep.rates(f"{norm}-{start}").items()
            ),
        )
        for norm, words in NORMS.items()
    )


def _part(claim: Text, learns: dict[str, int], more: str, less: str) -> Part:
    """Judge that one arm learns at more rates than another; one rate alone, of one seed, decides
    nothing.
    """
    a = learns[more]
    b = learns[less]
    outcome: Outcome = (
        "holds" if a > b + 1 else "contradicted" if b > a + 1 else "undecided"
    )
    reason = TEXTS["reason"].fill(
        more=NAMES[more], less=NAMES[less], a=a, b=b, all=len(PLAN.rates)
    )
    changed = abs(a - b) - 1 if abs(a - b) > 1 else 2 - abs(a - b)
    return Part(outcome, claim, reason, TEXTS["change"].fill(count=changed))
