"""Mask: a decoder that sees later words in training learns to copy them, and cannot translate."""

from __future__ import annotations

from regard.learn.lab.bench import Bench, Plan
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import QUALITY, last_loss, text_scores, validation_plot
from regard.learn.lab.models import transformer
from regard.learn.lab.verdicts import above

TEXTS = experiment_texts("mask", "caption", "names", "parts")
NAMES = TEXTS.table("names")
PLAN = Plan(800, (2e-3, 4e-3, 8e-3), by_loss=True)


def run(bench: Bench) -> Findings:
    """Train with and without the causal mask; compare validation loss, which reads the reference,
    and translation.
    """
    arms = {"masked": transformer(), "unmasked": transformer(decoder={"causal": False})}
    quality = text_scores(bench)
    sweep = bench.sweep(
        arms, NAMES, PLAN, lambda folder: {**quality(folder), "loss": last_loss(folder)}
    )
    high, low = (sweep.dots(arm, "loss", is_quality=False) for arm in arms)
    parts = (
        above(high, low, TEXTS["parts.cheats"], least=0.05, digits=2),
        above(sweep.dots("masked"), sweep.dots("unmasked"), TEXTS["parts.fails"]),
    )
    plots = (
        validation_plot(bench, sweep, LABELS["loss"], "loss"),
        validation_plot(bench, sweep, "chrF", "chrf"),
    )
    table = sweep.table(
        LABELS["after_training"], {LABELS["loss"]: "loss", **QUALITY}, "2"
    )
    return Findings(Verdict(parts), (table,), Graph(plots, TEXTS["caption"], columns=2))
