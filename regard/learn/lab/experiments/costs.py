"""Costs: table 1 of "Attention is all you need", counted and measured on Regard's own layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from regard.learn.lab.bench import Bench
from regard.learn.lab.costs import Cost, Sizes, measure
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
from regard.learn.lab.sweep import Dots
from regard.learn.lab.verdicts import beyond

TEXTS = experiment_texts(
    "costs",
    "caption",
    "names",
    "tables",
    "columns",
    "positions",
    "kept",
    "verdict",
    "parts",
)
NAMES = TEXTS.table("names")
COLUMNS = TEXTS.table("columns")
SMALL = Sizes(128, 128)
LARGE = Sizes(256, 128)
DRAWN = (
    "self-attention",
    "self-attention, weights kept",
    "self-attention, additive",
    "recurrent",
    "convolutional",
)


def run(bench: Bench) -> Findings:
    """Count and measure one layer of each kind, at lengths from n / 4 to 4 n."""
    sizes = LARGE if bench.full else SMALL
    min_seconds = 0.2 if bench.full else 0.03
    measured = bench.record(
        "costs",
        lambda: [
            asdict(cost)
            for cost in measure(sizes, min_seconds=min_seconds, progress=bench.say)
        ],
    )
    costs = {cost.name: cost for cost in (Cost(**values) for values in measured)}

    attention = costs["self-attention"]
    recurrent = costs["recurrent"]
    speedup = recurrent.seconds / attention.seconds
    memory_ratio = costs["self-attention, weights kept"].memory / recurrent.memory
    text = TEXTS["verdict"].fill(
        sizes=sizes,
        quick=speedup,
        memory=memory_ratio,
        fused=attention.memory / recurrent.memory,
        recurrent=recurrent,
        attention=attention,
        additive=costs["self-attention, additive"].seconds / attention.seconds,
        heads=attention.seconds / costs["self-attention, one head"].seconds,
    )

    x_label = TEXTS["positions"].fill(sizes=sizes)
    plots = (
        Plot(LABELS["milliseconds"], x_label, _curves(costs, "time n", 1e3)),
        Plot(TEXTS["kept"], x_label, _curves(costs, "memory n", 2.0**-20)),
    )
    speed_dots = Dots(TEXTS["parts.quick_of"], (speedup,))
    memory_dots = Dots(TEXTS["parts.memory_of"], (memory_ratio,))
    parts = (
        beyond(speed_dots, 1, TEXTS["parts.quick"], digits=1, change="timed"),
        beyond(memory_dots, 1, TEXTS["parts.memory"], digits=1, change="computed"),
    )
    return Findings(
        Verdict(parts, text),
        (_counted(costs), _measured(costs)),
        Graph(plots, TEXTS["caption"], "log", columns=2),
    )


def _curves(
    costs: Mapping[str, Cost], quantity: str, factor: float
) -> tuple[Curve, ...]:
    """Return the curve of a quantity, times `factor`, for each layer that is drawn."""
    curves = []
    for name in DRAWN:
        points = costs[name].curves[quantity]
        scaled = tuple((x, max(y * factor, 1e-6)) for x, y in points)
        curves.append(Curve(NAMES[name], scaled))
    return tuple(curves)


def _counted(costs: Mapping[str, Cost]) -> Table:
    """Return the table of counted operations, sequential steps and path lengths."""
    rows = []
    for name, cost in costs.items():
        operations = cost.formulas["operations"]
        row = (
            NAMES[name],
            f"O({operations})",
            f"{cost.factor:.2f} {operations}",
            f"{cost.growth['operations n']:.2f}",
            f"{cost.growth['operations d']:.2f}",
            f"O({cost.formulas['sequential']}): {cost.sequential}",
            f"O({cost.formulas['path']}): {cost.path}",
        )
        rows.append(row)
    return Table(TEXTS["tables.counted"], tuple(COLUMNS.values()), tuple(rows))


def _measured(costs: Mapping[str, Cost]) -> Table:
    """Return the table of measured time and memory, each with its growth in n and in d."""
    rows = []
    for name, cost in costs.items():
        row = (
            NAMES[name],
            f"{1000 * cost.seconds:.2f}",
            f"{cost.growth['time n']:.2f}",
            f"{cost.growth['time d']:.2f}",
            f"{cost.memory / 2**20:.2f}",
            f"{cost.growth['memory n']:.2f}",
            f"{cost.growth['memory d']:.2f}",
        )
        rows.append(row)
    growth = (COLUMNS["n"], COLUMNS["d"])
    columns = (COLUMNS["layer"], LABELS["milliseconds"], *growth, "MiB", *growth)
    return Table(TEXTS["tables.measured"], columns, tuple(rows))
