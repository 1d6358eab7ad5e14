"""Norm: layer norm before or after, batch norm, none; and the worked example of note 003."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from regard.common.bilingual import join_texts
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Table, Verdict, judge
from regard.learn.lab.measures import known_contrasts, score_table, validation_plot
from regard.learn.lab.models import transformer

TEXTS = experiment_texts("norm", "names", "change", "one_learns", "example", "rows", "columns", "remark")
NAMES = TEXTS.table("names")
NORMS = ("post", "pre", "batch")
EXAMPLE = (3.0, 5.0, -2.0)
"""Outputs of one node for a batch of three, normalised, then y = 2x + 3."""


def run(bench: Bench) -> Findings:
    """Train deeper Transformers with each norm; work the note's example."""
    models = {name: transformer(norm=name, layers=3) for name in NAMES}
    trained = bench.train(models, bench.choose(500, 800), may_fail=True)
    comparison = bench.compare(trained)
    gains = known_contrasts(comparison, {name: ("none", name) for name in NORMS})
    steadies = [name in trained.runs and (name not in gains or gains[name].is_better) for name in NORMS]
    changes = [TEXTS["change"].fill(name=NAMES[n], change=gains.get(n, TEXTS["one_learns"])) for n in NORMS]
    verdict = Verdict(judge(all(steadies), any(steadies)), TEXTS["verdict"].fill(changes=join_texts(changes, "; ")))
    table = score_table(LABELS["after_training"], comparison, NAMES)
    plot = validation_plot(LABELS["loss"], trained.runs, NAMES, "loss")
    return Findings(verdict, (table, _worked_example()), Graph((plot,), TEXTS["caption"], "log"), (TEXTS["remark"],))


def _worked_example() -> Table:
    values = torch.tensor(EXAMPLE)
    normed = F.batch_norm(values[:, None], None, None, training=True, eps=1e-12)[:, 0]
    rows = []
    for name, row in zip(TEXTS.table("rows").values(), (values, normed, 2 * normed + 3), strict=True):
        numbers = ", ".join(f"{x:.3f}" for x in row.tolist()).replace("-", "−")
        rows.append((name, numbers, f"{float(row.mean()):.3f}", f"{float(row.var(unbiased=False)):.3f}"))
    return Table(TEXTS["example"], tuple(TEXTS.table("columns").values()), tuple(rows))
