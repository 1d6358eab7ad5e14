"""Scaling: variance of q·k by key size, its effect on the softmax, and training with and without
the scale 1 / √d.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from regard.attention.scores import build_score
from regard.learn.lab.bench import TRANSFORMER, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import (
    LABELS,
    Curve,
    Findings,
    Graph,
    Plot,
    Table,
    Verdict,
)
from regard.learn.lab.measures import QUALITY, text_scores
from regard.learn.lab.models import transformer
from regard.learn.lab.sweep import Dots
from regard.learn.lab.verdicts import above, beyond

TEXTS = experiment_texts(
    "scaling",
    "caption",
    "names",
    "tables",
    "columns",
    "plots",
    "axis",
    "arm",
    "parts",
    "remark",
)
NAMES = TEXTS.table("names")
SIZES = (2, 8, 32, 100, 512)
PAIRS = 20_000
KEYS = 10
ROWS = ((1.1, -0.8, -1.7), (9.0, -11.0, 7.0))
"""Scores that note 003 gives as examples of a small and of a large variance."""
HEADS = {8: 8, 1: 64}
"""Key size by number of heads, in a model of size 64."""
ARMS = {
    f"{name}-{key}": TEXTS["arm"].fill(name=words, size=key)
    for name, words in NAMES.items()
    for key in HEADS.values()
}
Probes = Mapping[str, list[tuple[float, float]]]
"""For each score, its variance and mean gradient norm at each of the sizes."""


def run(bench: Bench) -> Findings:
    """Measure scores of random vectors; train with and without the scale, at two key sizes."""
    probes = {name: [probe(name, size) for size in SIZES] for name in NAMES}
    arms = {
        f"{name}-{key}": transformer(score=name, heads=heads)
        for name in NAMES
        for heads, key in HEADS.items()
    }
    sweep = bench.sweep(arms, ARMS, TRANSFORMER, text_scores(bench))

    large = SIZES.index(100)
    smallest_variance, _ = probes["dot"][0]
    variance, gradient = probes["dot"][large]
    _, scaled_gradient = probes["scaled_dot"][large]
    variance_growth = Dots(TEXTS["parts.variance_of"], (variance / smallest_variance,))
    gradient_gain = Dots(TEXTS["parts.gradient_of"], (scaled_gradient / gradient,))
    scaled, unscaled = sweep.dots("scaled_dot-64"), sweep.dots("dot-64")
    parts = (
        beyond(
            variance_growth, 40, TEXTS["parts.variance"], digits=0, change="computed"
        ),
        beyond(gradient_gain, 2, TEXTS["parts.gradient"], digits=1, change="computed"),
        above(scaled, unscaled, TEXTS["parts.training"]),
    )

    plots = []
    for number, title in enumerate(TEXTS.table("plots").values()):
        curves = tuple(_curve(name, probes[name], number) for name in NAMES)
        plots.append(Plot(title, TEXTS["axis"], curves))
    tables = (
        _random_table(probes),
        _softmax_table(),
        sweep.table(LABELS["after_training"], QUALITY),
    )
    return Findings(
        Verdict(parts),
        tables,
        Graph(tuple(plots), TEXTS["caption"], "log", columns=2),
        (TEXTS["remark"],),
    )


def _curve(name: str, measures: Sequence[tuple[float, float]], number: int) -> Curve:
    """Return the variance (`number` 0) or the gradient norm (1) of a score by key size."""
    points = zip(SIZES, measures, strict=True)
    return Curve(NAMES[name], tuple((float(size), row[number]) for size, row in points))


def probe(name: str, size: int) -> tuple[float, float]:
    """Return the variance of scores of standard normal queries and keys, and the mean gradient norm
    of their softmax.

    The gradient norm is the Frobenius norm of the softmax's Jacobian over ten keys, whose entries
    are wᵢ (δᵢⱼ − wⱼ).
    """
    generator = torch.Generator().manual_seed(size)
    query = torch.randn(PAIRS, 1, 1, size, generator=generator)
    keys = torch.randn(PAIRS, 1, KEYS, size, generator=generator)
    score = build_score(name, 1, size)
    scores = score(query, score.prepare(keys)).flatten(1)  # (pairs, keys)
    weights = scores.softmax(-1)
    jacobian = torch.diag_embed(weights) - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return float(scores.var()), float(jacobian.flatten(1).norm(dim=1).mean())


def _random_table(probes: Probes) -> Table:
    """Return the table of variance and gradient norm, without and with the scale."""
    columns = (
        "d",
        TEXTS["columns.variance"],
        "q·k / √d",
        TEXTS["columns.gradient"],
        "q·k / √d",
    )
    rows = []
    for size, dot, scaled in zip(
        SIZES, probes["dot"], probes["scaled_dot"], strict=True
    ):
        variances = (f"{dot[0]:.2f}", f"{scaled[0]:.2f}")
        gradients = (f"{dot[1]:.3f}", f"{scaled[1]:.3f}")
        rows.append((str(size), *variances, *gradients))
    return Table(TEXTS["tables.random"], columns, tuple(rows))


def _softmax_table() -> Table:
    """Return the table of the note's example scores and their softmax."""
    rows = []
    for scores in ROWS:
        weights = torch.tensor(scores).softmax(0).tolist()
        scores_text = ", ".join(f"{score:g}" for score in scores).replace("-", "−")
        weights_text = ", ".join(f"{weight:.3f}" for weight in weights)
        rows.append((scores_text, weights_text))
    columns = (TEXTS["columns.scores"], TEXTS["columns.weights"])
    return Table(TEXTS["tables.softmax"], columns, tuple(rows))
