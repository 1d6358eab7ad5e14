"""Warm-up: the learning rate that rises and falls, one that stays after its rise, and one that never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.common.bilingual import Text, join_texts
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Curve, Findings, Graph, Plot, Verdict, judge, listed
from regard.learn.lab.measures import Contrast, known_contrasts, score_table, validation_plot
from regard.learn.lab.models import transformer
from regard.training.schedule import ScheduleSettings, learning_rate

TEXTS = experiment_texts("warmup", "names", "change", "failed", "rate")
NAMES = TEXTS.table("names")
SIZE = 64


def run(bench: Bench) -> Findings:
    """Train the published (post-norm) Transformer with three schedules that have one highest rate."""
    updates = bench.choose(1000, 1700)
    schedules = _schedules(updates)
    models = {
        name: {**transformer(norm="post", layers=3), "schedule": schedule} for name, schedule in schedules.items()
    }
    trained = bench.train(models, updates, may_fail=True)
    comparison = bench.compare(trained)
    gains = known_contrasts(comparison, {name: (name, "noam") for name in ("warm-constant", "constant")})
    better = {name: name not in gains or gains[name].is_better for name in ("warm-constant", "constant")}
    suits = "noam" in trained.runs and better["constant"]
    verdict = Verdict(judge(suits and better["warm-constant"], suits), _text(gains, list(trained.failed)))
    rates = tuple(
        Curve(NAMES[name], tuple((float(u), _rate(values, u)) for u in range(1, updates + 1, max(1, updates // 60))))
        for name, values in schedules.items()
    )
    plots = (
        Plot(TEXTS["rate"], LABELS["updates"], rates),
        validation_plot(LABELS["loss"], trained.runs, NAMES, "loss"),
    )
    table = score_table(LABELS["after_training"], comparison, NAMES)
    return Findings(verdict, (table,), Graph(plots, TEXTS["caption"], columns=2))


def _text(gains: Mapping[str, Contrast], failed: Sequence[str]) -> Text:
    """Say how warm-up with decay differs from the other schedules, and which of them did not learn."""
    changes = [TEXTS["change"].fill(change=gain, name=NAMES[name]) for name, gain in gains.items()]
    sentences = [TEXTS["verdict"].fill(changes=listed(changes))] if gains else []
    return join_texts([*sentences, *(TEXTS["failed"].fill(name=NAMES[name]) for name in failed)], " ")


def _schedules(updates: int) -> dict[str, dict[str, Any]]:
    """Make schedules whose highest rate is that of noam with warm-up over a third of the updates."""
    warmup = updates // 3
    peak = (SIZE * warmup) ** -0.5
    return {
        "noam": {"kind": "noam", "warmup": warmup},
        "warm-constant": {"kind": "constant", "peak": peak, "warmup": warmup},
        "constant": {"kind": "constant", "peak": peak, "warmup": 0},
    }


def _rate(values: dict[str, Any], update: int) -> float:
    return learning_rate(ScheduleSettings.parse(values, "the experiment"), update, SIZE)
