"""Heads: 1 to 8 heads at equal size: quality, cost, and how much of their attention they share."""

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
    """Train Transformers of size 64 that split it into 1, 2, 4 and 8 heads."""
    quality = text_scores(bench)
    arms = {name: transformer(heads=count) for name, count in HEADS.items()}
    sweep = bench.sweep(
        arms,
        NAMES,
        TRANSFORMER,
        lambda folder: {**quality(folder), **sharing(bench, folder)},
    )
    one, four = (sweep.dots(name) for name in ("heads-1", "heads-4"))
    operations = [sweep.dots(name, "operations").mean for name in HEADS]
    spread = 100 * (max(operations) / min(operations) - 1)
    parts = (
        beyond(
            sweep.dots("heads-4", "overlap", TEXTS["overlap"]),
            0.5,
            TEXTS["parts.differ"],
            is_above=False,
        ),
        above(four, one, TEXTS["parts.helps"]),
        beyond(
            Dots(TEXTS["spread"], (spread,)), 5.0, TEXTS["parts.cost"], is_above=False
        ),
    )
    sizes = {name: str(64 // count) for name, count in HEADS.items()}
    table = sweep.table(
        LABELS["after_training"], {COLUMNS["size"]: sizes, "chrF": "chrF"}
    )
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
        table,
        sweep.table(COLUMNS["title"], shares, "2"),
        sweep.table(COLUMNS["cost"], costs, "0"),
    )
    return Findings(Verdict(parts), tables, Graph(plots, LABELS["dots"], columns=2))


def sharing(bench: Bench, folder: Path) -> Mapping[str, float]:
    """Return the cost of a model; and over pairs of heads of a layer's cross-attention the weight
    that both give alike.

    Two heads share Σ min(a, b) of their weights a and b, which is 1 if they are equal; the entropy
    is in nats.
    """
    sources = read_lines(str(bench.data() / "test.ko"))
    shared = list[float]()
    entropies = list[float]()
    for translation in load_translator(folder).translate(
        sources[:SENTENCES], beam=1, readings=True
    ):
        readings = translation.readings
        for layer in readings.layers() if readings else ():
            weights = readings.weights[layer]  # type: ignore[union-attr]
            entropies.append(
                float(-(weights * np.log(weights.clip(1e-9))).sum(-1).mean())
            )
            shared += [
                float(np.minimum(a, b).sum(-1).mean())
                for a, b in combinations(weights, 2)
            ]
    vocabulary, model = load_run(folder)
    ids = torch.tensor([vocabulary.encode(sources[0])])
    target = torch.arange(TOKENS).unsqueeze(0) + 3
    operations = (
        count_multiply_adds(lambda: model.project(model(Batch(ids), target))) / TOKENS
    )
    weights_count = sum(parameter.numel() for parameter in model.parameters())
    means = {
        "overlap": float(np.mean(shared)) if shared else 1.0,
        "entropy": float(np.mean(entropies)),
    }
    return {**means, "operations": operations, "weights": float(weights_count)}
