"""Mask: without the causal mask, a decoder learns to copy the next word and cannot translate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from regard.learn.lab.bench import Bench, Plan
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import QUALITY, last_loss, text_scores, validation_plot
from regard.learn.lab.models import transformer
from regard.learn.lab.sweep import Columns
from regard.learn.lab.verdicts import above

TEXTS = experiment_texts("mask", "caption", "names", "parts")
NAMES = TEXTS.table("names")
PLAN = Plan(updates=800, rates=(2e-3, 4e-3, 8e-3), by_loss=True)


def run(bench: Bench) -> Findings:
    """Train with and without the causal mask; compare validation loss and translation quality.

    The decoder reads the reference for the loss, but its own output for a translation.
    """
    arms = {"masked": transformer(), "unmasked": transformer(decoder={"causal": False})}
    quality = text_scores(bench)

    def measure(folder: Path) -> Mapping[str, float]:
        return {**quality(folder), "loss": last_loss(folder)}

    sweep = bench.sweep(arms, NAMES, PLAN, measure)
    masked, unmasked = (sweep.dots(arm, "loss", is_quality=False) for arm in arms)
    parts = (
        above(masked, unmasked, TEXTS["parts.cheats"], least=0.05, digits=2),
        above(sweep.dots("masked"), sweep.dots("unmasked"), TEXTS["parts.fails"]),
    )
    plots = (
        validation_plot(bench, sweep, LABELS["loss"], "loss"),
        validation_plot(bench, sweep, "chrF", "chrf"),
    )
    columns: Columns = {LABELS["loss"]: "loss", **QUALITY}
    table = sweep.table(LABELS["after_training"], columns, "2")
    return Findings(Verdict(parts), (table,), Graph(plots, TEXTS["caption"], columns=2))
