"""Scaling: variance of q·k by the size of the keys, its effect on softmax, and training with and
without √d.
"""

from __future__ import annotations

from collections.abc import Mapping

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
"""The scores that note 003 gives as examples of a small and of a large variance."""
HEADS = {8: 8, 1: 64}
"""Heads of a model of 64, and the size of a key of each."""
ARMS = {
    f"{name}-{key}": TEXTS["arm"].fill(name=words, size=key)
    for name, words in NAMES.items()
    for key in HEADS.values()
}
Probes = Mapping[str, list[tuple[float, float]]]
"""Variance and mean gradient of each score, at each of the sizes."""


def run(bench: Bench) -> Findings:
    """Measure random scores, then train with and without the scale, with small and with large
    keys.
    """
    probes = {name: [probe(name, size) for size in SIZES] for name in NAMES}
    arms = {
        f"{name}-{key}": transformer(score=name, heads=heads)
        for name in NAMES
        for heads, key in HEADS.items()
    }
    sweep = bench.sweep(arms, ARMS, TRANSFORMER, text_scores(bench))
    at = SIZES.index(100)
    (variance, gradient), (_, scaled) = probes["dot"][at], probes["scaled_dot"][at]
    factor = variance / probes["dot"][0][0]
    parts = (
        beyond(
            Dots(TEXTS["parts.variance_of"], (factor,)),
            40,
            TEXTS["parts.variance"],
            digits=0,
        ),
        beyond(
            Dots(TEXTS["parts.gradient_of"], (scaled / gradient,)),
            2,
            TEXTS["parts.gradient"],
            digits=1,
        ),
        above(
            sweep.dots("scaled_dot-64"), sweep.dots("dot-64"), TEXTS["parts.training"]
        ),
    )

    def curve(name: str, number: int) -> Curve:
        return Curve(
            NAMES[name],
            tuple(
                (float(d), row[number])
                for d, row in zip(SIZES, probes[name], strict=True)
            ),
        )

    titles = TEXTS.table("plots").values()
    plots = tuple(
        Plot(title, TEXTS["axis"], tuple(curve(a, n) for a in NAMES))
        for n, title in enumerate(titles)
    )
    tables = (
        _random_table(probes),
        _softmax_table(),
        sweep.table(LABELS["after_training"], QUALITY),
    )
    return Findings(
        Verdict(parts),
        tables,
        Graph(plots, TEXTS["caption"], "log", columns=2),
        (TEXTS["remark"],),
    )


def probe(name: str, size: int) -> tuple[float, float]:
    """Return the variance of scores of standard normal queries and keys, and the mean gradient norm
    of their softmax.

    The norm is that of the softmax's Jacobian over ten keys, whose entries are wᵢ (δᵢⱼ − wⱼ).
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
    columns = (
        "d",
        TEXTS["columns.variance"],
        "q·k / √d",
        TEXTS["columns.gradient"],
        "q·k / √d",
    )
    rows = (
        (str(size), f"{a[0]:.2f}", f"{b[0]:.2f}", f"{a[1]:.3f}", f"{b[1]:.3f}")
        for size, a, b in zip(SIZES, probes["dot"], probes["scaled_dot"], strict=True)
    )
    return Table(TEXTS["tables.random"], columns, tuple(rows))


def _softmax_table() -> Table:
    rows = []
    for row in ROWS:
        weights = torch.tensor(row).softmax(0).tolist()
        rows.append(
            (
                ", ".join(f"{x:g}" for x in row).replace("-", "−"),
                ", ".join(f"{w:.3f}" for w in weights),
            )
        )
    return Table(
        TEXTS["tables.softmax"],
        (TEXTS["columns.scores"], TEXTS["columns.weights"]),
        tuple(rows),
    )
