"""Teacher forcing: decoder inputs from the reference, from its own outputs, or half of each."""

from __future__ import annotations

from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict, judge
from regard.learn.lab.measures import QUALITY, Columns, contrast, score_table, validation_plot
from regard.learn.lab.models import recurrent
from regard.training.journal import read

TEXTS = experiment_texts("teacher_forcing", "names", "milliseconds")
NAMES = TEXTS.table("names")
SHARES = {"forced": 0.0, "mixed": 0.5, "own": 1.0}


def run(bench: Bench) -> Findings:
    """Train recurrent models with attention that read the reference, their own outputs, or half of each."""
    models = {
        name: {**recurrent(), "training": {"scheduled_sampling": share, "scheduled_sampling_ramp": 0}}
        for name, share in SHARES.items()
    }
    trained = bench.train(models, bench.choose(900, 1500))
    comparison = bench.compare(trained)
    seconds = {}
    for name, folders in trained.runs.items():
        ends = [event for folder in folders for event in read(folder / "journal.jsonl") if event["event"] == "end"]
        seconds[name] = sum(event["seconds"] / event["update"] for event in ends) / len(ends)
    columns: Columns = {
        **QUALITY,
        TEXTS["milliseconds"]: {name: f"{1000 * value:.0f}" for name, value in seconds.items()},
    }
    table = score_table(LABELS["after_training"], comparison, NAMES, columns)
    mixed, own = contrast(comparison, "mixed", "forced"), contrast(comparison, "own", "forced")
    text = TEXTS["verdict"].fill(own=own, mixed=mixed, ratio=seconds["own"] / seconds["forced"])
    outcome = judge(own.is_better and not mixed.is_worse, own.is_better)
    plot = validation_plot("chrF", trained.runs, NAMES, "chrf")
    return Findings(Verdict(outcome, text), (table,), Graph((plot,), TEXTS["caption"]))
