"""Costs: table 1 of "Attention is all you need", counted and measured on the layers that models are
made of.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    """Count and measure one layer of each kind, from a quarter of the length to four times."""
    sizes = LARGE if bench.full else SMALL
    costs = {
        cost.name: cost
        for cost in measure(
            sizes, min_seconds=0.2 if bench.full else 0.03, progress=bench.say
        )
    }
    attention = costs["self-attention"]
    recurrent = costs["recurrent"]
    quick = recurrent.seconds / attention.seconds
    memory = costs["self-attention, weights kept"].memory / recurrent.memory
    text = TEXTS["verdict"].fill(
        sizes=sizes,
        quick=quick,
        memory=memory,
        fused=attention.memory / recurrent.memory,
        recurrent=recurrent,
        attention=attention,
        additive=costs["self-attention, additive"].seconds / attention.seconds,
        heads=attention.seconds / costs["self-attention, one head"].seconds,
    )
    plots = (
        Plot(
            LABELS["milliseconds"],
            TEXTS["positions"].fill(sizes=sizes),
            _curves(costs, "time n", 1e3),
        ),
        Plot(
            TEXTS["kept"],
            TEXTS["positions"].fill(sizes=sizes),
            _curves(costs, "memory n", 2.0**-20),
        ),
    )
    parts = (
        beyond(
            Dots(TEXTS["parts.quick_of"], (quick,)), 1, TEXTS["parts.quick"], digits=1
        ),
        beyond(
            Dots(TEXTS["parts.memory_of"], (memory,)),
            1,
            TEXTS["parts.memory"],
            digits=1,
        ),
    )
    return Findings(
        Verdict(parts, text),
        (_counted(costs), _measured(costs)),
        Graph(plots, TEXTS["caption"], "log", columns=2),
    )


def _curves(
    costs: Mapping[str, Cost], quantity: str, factor: float
) -> tuple[Curve, ...]:
    return tuple(
        Curve(
            NAMES[name],
            tuple((n, max(y * factor, 1e-6)) for n, y in costs[name].curves[quantity]),
        )
        for name in DRAWN
    )


def _counted(costs: Mapping[str, Cost]) -> Table:
    return Table(
        TEXTS["tables.counted"],
        tuple(COLUMNS.values()),
        tuple(
            (
                NAMES[name],
                f"O({cost.formulas['operations']})",
                f"{cost.factor:.2f} {cost.formulas['operations']}",
                f"{cost.growth['operations n']:.2f}",
                f"{cost.growth['operations d']:.2f}",
                f"O({cost.formulas['sequential']}): {cost.sequential}",
                f"O({cost.formulas['path']}): {cost.path}",
            )
            for name, cost in costs.items()
        ),
    )


def _measured(costs: Mapping[str, Cost]) -> Table:
    growth = COLUMNS["n"], COLUMNS["d"]
    return Table(
        TEXTS["tables.measured"],
        (COLUMNS["layer"], LABELS["milliseconds"], *growth, "MiB", *growth),
        tuple(
            (
                NAMES[name],
                f"{1000 * cost.seconds:.2f}",
                *(f"{cost.growth[f'time {axis}']:.2f}" for axis in "nd"),
                f"{cost.memory / 2**20:.2f}",
                *(f"{cost.growth[f'memory {axis}']:.2f}" for axis in "nd"),
            )
            for name, cost in costs.items()
        ),
    )
