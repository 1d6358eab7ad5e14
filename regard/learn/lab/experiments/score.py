"""Score: additive, dot, general, cosine: quality after equal training, and time of the attention alone."""

from __future__ import annotations

import statistics
import time

import torch

from regard.attention import Attention
from regard.common.processes import torch_threads
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import experiment_texts
from regard.learn.lab.findings import LABELS, Curve, Findings, Graph, Plot, Verdict, judge
from regard.learn.lab.measures import QUALITY, Columns, contrast, score_plot, score_table
from regard.learn.lab.models import recurrent

TEXTS = experiment_texts("score", "names", "table", "score", "alone")
NAMES = TEXTS.table("names")
SENTENCES, WORDS, SIZE = 32, 30, 128
ROUNDS = 25


def run(bench: Bench) -> Findings:
    """Train a recurrent model with each score; time each score's attention in turns."""
    models = {name: recurrent(score=name, attention_size=64) for name in NAMES}
    trained = bench.train(models, bench.choose(700, 1000))
    comparison = bench.compare(trained)
    times = {name: 1000 * seconds for name, seconds in attention_times().items()}
    columns: Columns = {**QUALITY, LABELS["milliseconds"]: {name: f"{value:.2f}" for name, value in times.items()}}
    title = TEXTS["table"].fill(sentences=SENTENCES, words=WORDS)
    table = score_table(title, comparison, NAMES, columns, TEXTS["score"])
    ratio = times["additive"] / times["dot"]
    text = TEXTS["verdict"].fill(ratio=ratio, difference=contrast(comparison, "dot", "additive"))
    spent = tuple(Curve(TEXTS["alone"], ((float(place), times[name]),), paint=1) for place, name in enumerate(NAMES))
    plots = (score_plot(comparison, NAMES), Plot(TEXTS["alone"], "", spent, tuple(NAMES.values())))
    return Findings(Verdict(judge(ratio > 1.2), text), (table,), Graph(plots, TEXTS["caption"], columns=2))


@torch_threads(1)
def attention_times() -> dict[str, float]:
    """Return the median seconds of one attention with its gradients, the scores in turns, on one thread."""
    torch.manual_seed(1)
    query, memory = (torch.randn(SENTENCES, WORDS, SIZE, requires_grad=True) for _ in range(2))
    layers = {name: Attention("cross", SIZE, SIZE, 64, score_name=name, project_values=False) for name in NAMES}
    seconds: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(ROUNDS):
        for name, layer in layers.items():
            began = time.perf_counter()
            layer(query, layer.prepare(memory, memory)).sum().backward()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values[ROUNDS // 5 :]) for name, values in seconds.items()}
