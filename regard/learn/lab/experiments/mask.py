"""Mask: a decoder that sees later words in training learns to copy them, and cannot translate."""

from __future__ import annotations

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict, judge
from regard.learn.lab.measures import Columns, contrast, score_table, score_text, validation_plot
from regard.learn.lab.models import transformer

TEXTS = experiment_texts("mask", "names", "table", "translation")
NAMES = TEXTS.table("names")


def run(bench: Bench) -> Findings:
    """Train with and without the causal mask; compare validation loss, which reads the reference, and translation."""
    models = {"masked": transformer(), "unmasked": transformer(decoder={"causal": False})}
    trained = bench.train(models, bench.choose(1000, 1600))
    comparison = bench.compare(trained)
    loss_plot = validation_plot(LABELS["loss"], trained.runs, NAMES, "loss")
    plots = (loss_plot, validation_plot(Text("chrF", "chrF"), trained.runs, NAMES, "chrf"))
    losses = {name: curve.points[-1][1] for name, curve in zip(NAMES, loss_plot.curves, strict=True)}
    columns: Columns = {
        LABELS["loss"]: {name: f"{loss:.2f}" for name, loss in losses.items()},
        TEXTS["translation"]: "chrF",
        "BLEU": "BLEU",
    }
    table = score_table(TEXTS["table"], comparison, NAMES, columns)
    cheats = losses["unmasked"] < losses["masked"]
    fails = contrast(comparison, "masked", "unmasked").is_worse
    scores = {name: score_text(comparison, name) for name in NAMES}
    verdict = Verdict(judge(cheats and fails, fails), TEXTS["verdict"].fill(losses=losses, scores=scores))
    return Findings(verdict, (table,), Graph(plots, TEXTS["caption"], columns=2))
