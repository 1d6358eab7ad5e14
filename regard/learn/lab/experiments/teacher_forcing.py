"""Teacher forcing: decoder inputs from the reference, from the model's outputs, or from both."""

from __future__ import annotations

from regard.learn.lab.bench import RECURRENT, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import QUALITY, text_scores, validation_plot
from regard.learn.lab.models import recurrent
from regard.learn.lab.verdicts import above

TEXTS = experiment_texts("teacher_forcing", "names", "parts")
NAMES = TEXTS.table("names")
# Share of the decoder inputs that are the model's own outputs (scheduled sampling).
SHARES = {"forced": 0.0, "mixed": 0.5, "own": 1.0}


def run(bench: Bench) -> Findings:
    """Train recurrent models on the reference, on their own outputs, or on half of each."""
    arms = {
        name: {
            **recurrent(),
            "training": {"scheduled_sampling": share, "scheduled_sampling_ramp": 0},
        }
        for name, share in SHARES.items()
    }
    arms["forced"] = recurrent()
    sweep = bench.sweep(arms, NAMES, RECURRENT, text_scores(bench))
    forced, mixed, own = (sweep.dots(arm) for arm in arms)
    table = sweep.table(LABELS["after_training"], QUALITY)
    parts = (
        above(forced, own, TEXTS["parts.own"]),
        above(forced, mixed, TEXTS["parts.mixed"]),
    )
    plots = (
        sweep.plot("chrF"),
        validation_plot(bench, sweep, LABELS["on_the_way"], "chrf"),
    )
    return Findings(Verdict(parts), (table,), Graph(plots, LABELS["dots"], columns=2))
