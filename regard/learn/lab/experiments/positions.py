"""Positions: sinusoids, learned vectors or none; and what happens to a sentence whose words change
places.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.data.text import read_parallel
from regard.learn.lab.bench import TRANSFORMER, Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Findings, Graph, Verdict
from regard.learn.lab.measures import translate
from regard.learn.lab.models import load_run, transformer
from regard.learn.lab.verdicts import above, beyond
from regard.models import Batch

TEXTS = experiment_texts(
    "positions", "caption", "names", "orders", "table", "moved", "parts"
)
NAMES = TEXTS.table("names")
ORDERS = TEXTS.table("orders")
STILL = 1e-4
"""The largest change of a vector that rounding alone explains."""


def run(bench: Bench) -> Findings:
    """Train with each kind of positions; translate the test sentences as they are, and with their
    words shuffled.
    """
    folder = bench.data()
    sources, targets = read_parallel([str(folder / "test.ko"), str(folder / "test.en")])

    def measure(run: Path) -> Mapping[str, float]:
        shuffled = translate(run, [shuffle(line) for line in sources], targets)[1]
        return {
            **translate(run, sources, targets)[1],
            "shuffled": shuffled["chrF"],
            "moved": movement(run),
        }

    sweep = bench.sweep(
        {name: transformer(positions=name) for name in NAMES},
        NAMES,
        TRANSFORMER,
        measure,
    )
    moved = {
        arm: f"{d:{6 if d.mean < STILL else 1}}"
        for arm in NAMES
        for d in [sweep.dots(arm, "moved")]
    }
    table = sweep.table(
        TEXTS["table"],
        {
            ORDERS["plain"]: "chrF",
            ORDERS["shuffled"]: "shuffled",
            TEXTS["moved"]: moved,
        },
    )
    parts = (
        beyond(
            sweep.dots("none", "moved", TEXTS["moved"]),
            STILL,
            TEXTS["parts.blind"],
            is_above=False,
            digits=6,
        ),
        above(sweep.dots("sinusoidal"), sweep.dots("none"), TEXTS["parts.loses"]),
    )
    curves = [
        replace(curve, paint=paint, name=ORDERS[order])
        for paint, (order, score) in enumerate(
            {"plain": "chrF", "shuffled": "shuffled"}.items()
        )
        for curve in sweep.plot("chrF", score).curves
    ]
    plot = replace(sweep.plot("chrF"), curves=tuple(curves))
    return Findings(Verdict(parts), (table,), Graph((plot,), TEXTS["caption"]))


def shuffle(line: str) -> str:
    """Put the words of a line into another order, always the same one."""
    words = line.split()
    random.Random(line).shuffle(words)
    return " ".join(words)


@torch.no_grad()
def movement(folder: Path) -> float:
    """Return how far the encoder's vectors of three words move, at most, if the words change
    places.
    """
    vocabulary, model = load_run(folder)
    tokens = [vocabulary.encode(word) for word in ("나는", "집에", "간다")]
    outputs: list[Any] = []
    for order in ((0, 1, 2), (1, 2, 0)):
        ids = torch.tensor([[token for place in order for token in tokens[place]]])
        encoded = (
            model.encoder(Batch(ids))
            .outputs[0]
            .split([len(tokens[place]) for place in order])
        )
        outputs.append(torch.cat([encoded[order.index(place)] for place in range(3)]))
    return float((outputs[0] - outputs[1]).norm(dim=-1).max())
