"""Score: quality of each attention score at its best learning rate, and time of the attention."""

from __future__ import annotations

from functools import partial

from regard.attention import SCORES
from regard.learn.lab.bench import SHORT, Bench
from regard.learn.lab.costs import Kind, SelfAttention, Sizes, seconds
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Curve, Findings, Graph, Plot, Verdict
from regard.learn.lab.measures import QUALITY, text_scores
from regard.learn.lab.models import recurrent
from regard.learn.lab.sweep import Columns, Dots
from regard.learn.lab.verdicts import beyond

TEXTS = experiment_texts(
    "score", "names", "table", "alone", "parts", "ratio", "quality"
)
NAMES = TEXTS.table("names")
SIZES = Sizes(128, 128)
"""Length and size of the attention that is timed; those of `regard lab costs`."""
ROUNDS = 3
"""Timings of each score."""


def run(bench: Bench) -> Findings:
    """Train a recurrent model with each score; time the attention of each score in rounds."""
    arms = {name: recurrent(score=name, attention_size=64) for name in NAMES}
    sweep = bench.sweep(arms, NAMES, SHORT, text_scores(bench))

    kinds = [
        Kind(
            name,
            layer=partial(SelfAttention, score=SCORES[name]),
            operations="n²d",
            memory="nd",
            sequential="1",
            path="1",
        )
        for name in NAMES
    ]
    rounds = bench.record(
        "milliseconds",
        lambda: [
            {kind.name: 1000 * seconds(kind, SIZES, 0.1) for kind in kinds}
            for _ in range(ROUNDS)
        ],
    )
    milliseconds = {name: tuple(times[name] for times in rounds) for name in NAMES}
    cells = {name: f"{Dots('', values):2}" for name, values in milliseconds.items()}
    columns: Columns = {**QUALITY, LABELS["milliseconds"]: cells}
    table = sweep.table(TEXTS["table"].fill(sizes=SIZES), columns)

    ratios = tuple(times["additive"] / times["dot"] for times in rounds)
    part = beyond(Dots(TEXTS["ratio"], ratios), 1.2, TEXTS["parts.time"], digits=1)
    additive, dot, scaled = (
        f"{sweep.dots(name):1}" for name in ("additive", "dot", "scaled_dot")
    )
    text = TEXTS["quality"].fill(additive=additive, dot=dot, scaled=scaled)

    time_dots = tuple(
        Curve(TEXTS["alone"], points=((float(place), value),), paint=0)
        for place, values in enumerate(milliseconds.values())
        for value in values
    )
    time_plot = Plot(TEXTS["alone"], "", time_dots, tuple(NAMES.values()))
    plots = (sweep.plot("chrF"), time_plot)
    return Findings(
        Verdict((part,), text), (table,), Graph(plots, LABELS["dots"], columns=2)
    )
