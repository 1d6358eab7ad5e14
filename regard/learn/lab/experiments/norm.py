"""Norm: no norm, and layer norm or batch norm before or after the sublayers.

A table repeats the worked example of note 003.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from regard.learn.lab.bench import DEEP, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Table, Verdict
from regard.learn.lab.measures import QUALITY, text_scores, validation_plot
from regard.learn.lab.models import transformer
from regard.learn.lab.verdicts import above

TEXTS = experiment_texts(
    "norm", "names", "parts", "example", "rows", "columns", "remark"
)
NAMES = TEXTS.table("names")
EXAMPLE = (3.0, 5.0, -2.0)
"""Outputs of one node for a batch of three; the example normalises them and takes y = 2x + 3."""


def run(bench: Bench) -> Findings:
    """Train Transformers of three layers with each norm at each place; compute the example."""
    arms = {name: transformer(norm=name, layers=3) for name in NAMES}
    sweep = bench.sweep(arms, NAMES, DEEP, text_scores(bench))
    none = sweep.dots("none")
    parts = tuple(
        above(sweep.dots(arm), none, TEXTS[f"parts.{arm}"])
        for arm in ("pre", "pre_batch", "post")
    )
    # The places are compared in a remark, which does not count for the verdict.
    pre_against_post = above(
        sweep.dots("pre"), sweep.dots("post"), TEXTS["parts.place"]
    )

    plots = (sweep.plot("chrF"), validation_plot(bench, sweep, LABELS["loss"], "loss"))
    tables = (sweep.table(LABELS["after_training"], QUALITY), _worked_example())
    return Findings(
        Verdict(parts),
        tables,
        Graph(plots, LABELS["dots"]),
        (TEXTS["remark"], pre_against_post.reason),
    )


def _worked_example() -> Table:
    """Return the example's values before and after batch norm, with their mean and variance."""
    values = torch.tensor(EXAMPLE)
    normed = F.batch_norm(values[:, None], None, None, training=True, eps=1e-12)[:, 0]
    steps = (values, normed, 2 * normed + 3)
    rows = []
    for name, row in zip(TEXTS.table("rows").values(), steps, strict=True):
        numbers = ", ".join(f"{x:.3f}" for x in row.tolist()).replace("-", "−")
        mean = float(row.mean())
        variance = float(row.var(unbiased=False))
        rows.append((name, numbers, f"{mean:.3f}", f"{variance:.3f}"))
    return Table(TEXTS["example"], tuple(TEXTS.table("columns").values()), tuple(rows))
