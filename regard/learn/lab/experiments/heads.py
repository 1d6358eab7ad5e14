"""Heads: 1 to 8 heads at equal size: quality, weights and operations."""

from __future__ import annotations

from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import Findings, Graph, Plot, Verdict, judge, listed
from regard.learn.lab.measures import contrast, score_curve, score_table
from regard.learn.lab.models import transformer

TEXTS = experiment_texts("heads", "table", "axis", "columns", "change")
COLUMNS = TEXTS.table("columns")
HEADS = {f"heads-{count}": count for count in (1, 2, 4, 8)}


def run(bench: Bench) -> Findings:
    """Train Transformers of size 64 that split it into 1, 2, 4 and 8 heads."""
    models = {name: transformer(heads=count) for name, count in HEADS.items()}
    trained = bench.train(models, bench.choose(800, 1200))
    comparison = bench.compare(trained)
    weights, operations = dict[str, int](), dict[str, float]()
    for system in comparison.systems:
        cost = comparison.run(system.runs[0]).cost
        assert cost is not None, "a run has a cost"
        weights[system.name], operations[system.name] = cost.weights, cost.operations
    first, *others = HEADS
    gains = {HEADS[name]: contrast(comparison, first, name) for name in others}
    spread = max(operations.values()) / min(operations.values()) - 1
    equal = spread < 0.02 and len(set(weights.values())) == 1
    changes = listed([TEXTS["change"].fill(change=gain, count=count) for count, gain in gains.items()])
    text = TEXTS["verdict"].fill(weights=weights[first], spread=spread, changes=changes)
    outcome = judge(equal and any(gain.is_better for gain in gains.values()), equal)
    names = {name: str(count) for name, count in HEADS.items()}
    table = score_table(
        TEXTS["table"],
        comparison,
        names,
        {
            COLUMNS["size"]: {name: str(64 // count) for name, count in HEADS.items()},
            "chrF": "chrF",
            COLUMNS["weights"]: {name: f"{count:,}" for name, count in weights.items()},
            COLUMNS["operations"]: {name: f"{count:,.0f}" for name, count in operations.items()},
        },
        COLUMNS["heads"],
    )
    curve = score_curve("chrF", comparison, list(HEADS))
    plot = Plot("chrF", TEXTS["axis"], (curve,), tuple(names.values()))
    return Findings(Verdict(outcome, text), (table,), Graph((plot,), TEXTS["caption"]))
