"""Positions: sinusoidal, learned or no positional encoding; and translation of shuffled words."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from regard.common.shapes import Tensor
from regard.data.text import read_parallel
from regard.learn.lab.bench import TRANSFORMER, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Curve, Findings, Graph, Verdict
from regard.learn.lab.measures import translate
from regard.learn.lab.models import load_run, transformer
from regard.learn.lab.sweep import Columns
from regard.learn.lab.verdicts import above, beyond
from regard.models import Batch

TEXTS = experiment_texts(
    "positions", "caption", "names", "orders", "table", "moved", "parts"
)
NAMES = TEXTS.table("names")
ORDERS = TEXTS.table("orders")
STILL = 1e-4
"""Largest change of a vector that can be a rounding error."""


def run(bench: Bench) -> Findings:
    """Train with each kind of positions; translate the test sentences in order and shuffled."""
    folder = bench.data()
    sources, targets = read_parallel([str(folder / "test.ko"), str(folder / "test.en")])

    def measure(run: Path) -> Mapping[str, float]:
        _, scores = translate(run, sources, targets)
        _, shuffled = translate(run, [shuffle(line) for line in sources], targets)
        return {**scores, "shuffled": shuffled["chrF"], "moved": movement(run)}

    arms = {name: transformer(positions=name) for name in NAMES}
    sweep = bench.sweep(arms, NAMES, TRANSFORMER, measure)

    moved = {}
    for arm in NAMES:
        dots = sweep.dots(arm, "moved")
        digits = 6 if dots.mean < STILL else 1
        moved[arm] = f"{dots:{digits}}"
    columns: Columns = {
        ORDERS["plain"]: "chrF",
        ORDERS["shuffled"]: "shuffled",
        TEXTS["moved"]: moved,
    }
    table = sweep.table(TEXTS["table"], columns)

    blind = sweep.dots("none", "moved", TEXTS["moved"])
    parts = (
        beyond(blind, STILL, TEXTS["parts.blind"], is_above=False, digits=6),
        above(sweep.dots("sinusoidal"), sweep.dots("none"), TEXTS["parts.loses"]),
    )
    scores = {"plain": "chrF", "shuffled": "shuffled"}
    curves: list[Curve] = []
    for paint, (order, score) in enumerate(scores.items()):
        curves += [
            replace(curve, paint=paint, name=ORDERS[order])
            for curve in sweep.plot("chrF", score).curves
        ]
    plot = replace(sweep.plot("chrF"), curves=tuple(curves))
    return Findings(Verdict(parts), (table,), Graph((plot,), TEXTS["caption"]))


def shuffle(line: str) -> str:
    """Shuffle the words of a line; equal lines give equal results."""
    words = line.split()
    random.Random(line).shuffle(words)
    return " ".join(words)


@torch.no_grad()
def movement(folder: Path) -> float:
    """Return the largest distance between a token's encoder outputs in two orders of the words."""
    vocabulary, model = load_run(folder)
    words = [vocabulary.encode(word) for word in ("나는", "집에", "간다")]
    outputs: list[Tensor] = []
    for order in ((0, 1, 2), (1, 2, 0)):
        ordered = [words[word] for word in order]
        ids = torch.tensor([[token for tokens in ordered for token in tokens]])
        encoded = model.encoder(Batch(ids)).outputs[0]
        by_place = encoded.split([len(tokens) for tokens in ordered])
        # Bring the outputs back into the first order.
        outputs.append(torch.cat([by_place[order.index(word)] for word in range(3)]))
    return float((outputs[0] - outputs[1]).norm(dim=-1).max())
