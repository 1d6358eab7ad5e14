"""Positions: sinusoids, learned vectors or none; and what happens to a sentence whose words change places."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.data.text import read_parallel
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Findings, Graph, Plot, Verdict, judge
from regard.learn.lab.measures import Columns, contrast, score_of, score_plot, score_table, score_text
from regard.learn.lab.models import load_run, transformer
from regard.models import Batch

TEXTS = experiment_texts("positions", "names", "orders", "table", "columns")
NAMES, ORDERS = TEXTS.table("names"), TEXTS.table("orders")


def run(bench: Bench) -> Findings:
    """Train with each kind of positions; translate the test sentences as they are, and with their words shuffled."""
    models = {name: transformer(positions=name) for name in NAMES}
    trained = bench.train(models, bench.choose(900, 1400))
    folder = bench.texts()
    sources, targets = read_parallel([str(folder / "test.ko"), str(folder / "test.en")])
    plain = bench.compare(trained)
    shuffled = bench.compare(trained, "shuffled", list(zip(map(shuffle, sources), targets, strict=True)))
    moved = {name: movement(trained.runs[name][0]) for name in NAMES}
    columns: Columns = {
        ORDERS["plain"]: "chrF",
        ORDERS["shuffled"]: {name: score_text(shuffled, name) for name in NAMES},
        TEXTS["columns.change"]: {name: f"{change:.6f}" for name, change in moved.items()},
    }
    table = score_table(TEXTS["table"], plain, NAMES, columns, TEXTS["columns.positions"])
    loses = contrast(plain, "sinusoidal", "none")
    keeps = abs(score_of(plain, "none").mean - score_of(shuffled, "none").mean)
    blind = moved["none"] < 1e-4 < moved["sinusoidal"]
    verdict = Verdict(
        judge(blind and loses.is_worse, blind), TEXTS["verdict"].fill(moved=moved, keeps=keeps, loses=loses)
    )
    curves = [
        replace(curve, paint=paint, name=ORDERS[order])
        for paint, (order, part) in enumerate(zip(ORDERS, (plain, shuffled), strict=True))
        for curve in score_plot(part, NAMES).curves
    ]
    plot = Plot("chrF", "", tuple(curves), tuple(NAMES.values()))
    return Findings(verdict, (table,), Graph((plot,), TEXTS["caption"]))


def shuffle(line: str) -> str:
    """Put the words of a line into another order, always the same one."""
    words = line.split()
    random.Random(line).shuffle(words)
    return " ".join(words)


@torch.no_grad()
def movement(folder: Path) -> float:
    """Return how far the encoder's vectors of three words move, at most, if the words change places."""
    vocabulary, model = load_run(folder)
    tokens = [vocabulary.encode(word) for word in ("나는", "집에", "간다")]
    outputs: list[Any] = []
    for order in ((0, 1, 2), (1, 2, 0)):
        ids = torch.tensor([[token for place in order for token in tokens[place]]])
        encoded = model.encoder(Batch(ids)).outputs[0].split([len(tokens[place]) for place in order])
        outputs.append(torch.cat([encoded[order.index(place)] for place in range(3)]))
    return float((outputs[0] - outputs[1]).norm(dim=-1).max())
