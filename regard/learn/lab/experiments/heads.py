"""Heads: quality, cost and overlap of attention with 1 to 8 heads at equal model size."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import numpy as np
import torch

from regard.data.text import read_lines
from regard.learn.lab.bench import TRANSFORMER, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Findings, Graph, Verdict
from regard.learn.lab.measures import text_scores
from regard.learn.lab.models import load_run, transformer
from regard.learn.lab.sweep import Columns, Dots
from regard.learn.lab.verdicts import above, beyond
from regard.models import Batch
from regard.models.operations import count_multiply_adds
from regard.pipeline import load_translator

TEXTS = experiment_texts("heads", "columns", "parts", "count", "spread", "overlap")
COLUMNS = TEXTS.table("columns")
HEADS = {f"heads-{count}": count for count in (1, 2, 4, 8)}
NAMES = {
    name: TEXTS["count"].fill(count=count, plural="s" if count > 1 else "")
    for name, count in HEADS.items()
}
SENTENCES = 100
TOKENS = 30


def run(bench: Bench) -> Findings:
    """Train Transformers of size 64 with 1, 2, 4 and 8 heads."""
    quality = text_scores(bench)

    def measure(folder: Path) -> Mapping[str, float]:
        return {**quality(folder), **sharing(bench, folder)}

    arms = {name: transformer(heads=count) for name, count in HEADS.items()}
    sweep = bench.sweep(arms, NAMES, TRANSFORMER, measure)

    one, four = (sweep.dots(name) for name in ("heads-1", "heads-4"))
    operations = [sweep.dots(name, "operations").mean for name in HEADS]
    spread = 100 * (max(operations) / min(operations) - 1)
    overlap = sweep.dots("heads-4", "overlap", TEXTS["overlap"])
    cost_spread = Dots(TEXTS["spread"], (spread,))
    parts = (
        beyond(overlap, 0.5, TEXTS["parts.differ"], is_above=False),
        above(four, one, TEXTS["parts.helps"]),
        beyond(
            cost_spread,
            5.0,
            TEXTS["parts.cost"],
            is_above=False,
            change="computed",
        ),
    )

    head_sizes = {name: str(64 // count) for name, count in HEADS.items()}
    quality_columns: Columns = {COLUMNS["size"]: head_sizes, "chrF": "chrF"}
    costs: Columns = {
        COLUMNS["weights"]: "weights",
        COLUMNS["operations"]: "operations",
    }
    shares: Columns = {COLUMNS["overlap"]: "overlap", COLUMNS["entropy"]: "entropy"}
    plots = (
        sweep.plot("chrF"),
        sweep.plot(COLUMNS["overlap"], "overlap", [*HEADS][1:]),
    )
    tables = (
        sweep.table(LABELS["after_training"], quality_columns),
        sweep.table(COLUMNS["title"], shares, "2"),
        sweep.table(COLUMNS["cost"], costs, "0"),
    )
    return Findings(Verdict(parts), tables, Graph(plots, LABELS["dots"], columns=2))


def sharing(bench: Bench, folder: Path) -> Mapping[str, float]:
    """Return the overlap and the entropy of the cross-attention heads, and the cost of the model.

    The overlap of two heads of a layer with attention weights a and b is Σ min(a, b), which is 1 if
    they are equal. It is averaged over all pairs of heads. The entropy is in nats, and the cost is
    multiply-adds per token and the number of parameters.
    """
    sources = read_lines(str(bench.data() / "test.ko"))
    translations = load_translator(folder).translate(
        sources[:SENTENCES], beam=1, readings=True
    )
    overlaps = list[float]()
    entropies = list[float]()
    for translation in translations:
        readings = translation.readings
        if readings is None:
            continue
        for layer in readings.layers():
            weights = readings.weights[layer]  # (H, T, S)
            entropy = -(weights * np.log(weights.clip(1e-9))).sum(-1)
            entropies.append(float(entropy.mean()))
            for a, b in combinations(weights, 2):
                overlaps.append(float(np.minimum(a, b).sum(-1).mean()))

    vocabulary, model = load_run(folder)
    ids = torch.tensor([vocabulary.encode(sources[0])])
    target = torch.arange(TOKENS).unsqueeze(0) + 3
    operations = count_multiply_adds(lambda: model.project(model(Batch(ids), target)))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {
        "overlap": float(np.mean(overlaps)) if overlaps else 1.0,
        "entropy": float(np.mean(entropies)),
        "operations": operations / TOKENS,
        "weights": float(parameters),
    }
