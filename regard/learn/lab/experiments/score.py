"""Score: additive, dot, general, cosine: quality after equal training, and time of the attention alone."""

from __future__ import annotations

import statistics
import time

import torch

from regard.attention import Attention
from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Curve, Findings, Graph, Outcome, Plot, Table, Verdict
from regard.learn.lab.measures import INTERVALS, contrast, score_plot, score_text
from regard.learn.lab.models import recurrent

NAMES = {
    "additive": Text("additive", "additive (가산)"),
    "dot": Text("dot", "dot (내적)"),
    "scaled_dot": Text("scaled dot", "scaled dot"),
    "general": Text("general", "general"),
    "cosine": Text("cosine", "cosine (코사인)"),
}
SENTENCES, WORDS, SIZE = 32, 30, 128
ROUNDS = 25


def run(bench: Bench) -> Findings:
    """Train a recurrent model with each score; time each score's attention in turns."""
    models = {name: recurrent(score=name, attention_size=64) for name in NAMES}
    trained = bench.train(models, bench.choose(700, 1000))
    comparison = bench.compare(trained)
    times = attention_times()
    table = Table(
        Text(
            f"Translation, and milliseconds of the attention alone ({SENTENCES} sentences of {WORDS} words, with "
            "gradients)",
            f"번역, 그리고 어텐션만의 시간({SENTENCES}문장 × {WORDS}단어, 기울기 포함, 밀리초)",
        ),
        (Text("score", "점수"), "chrF", "BLEU", Text("milliseconds", "밀리초")),
        tuple(
            (
                NAMES[name],
                score_text(comparison, name),
                score_text(comparison, name, "BLEU"),
                f"{1000 * times[name]:.2f}",
            )
            for name in NAMES
        ),
    )
    ratio, difference = times["additive"] / times["dot"], contrast(comparison, "dot", "additive")
    outcome: Outcome = "holds" if ratio > 1.2 else "contradicted"
    text = Text(
        f"Additive attention takes {ratio:.1f} times as long as dot products; its chrF differs from theirs by "
        f"{difference}.",
        f"additive 어텐션은 내적보다 {ratio:.1f}배 걸리고, chrF의 차이는 {difference}입니다.",
    )
    attention_alone = Text("milliseconds of the attention alone", "어텐션만의 시간(밀리초)")
    spent = tuple(
        Curve(attention_alone, ((float(place), 1000 * times[name]),), paint=1) for place, name in enumerate(NAMES)
    )
    plots = (
        score_plot(comparison, NAMES),
        Plot(attention_alone, "", spent, tuple(NAMES.values())),
    )
    caption = Text(
        "Quality after equal training, and time of the attention alone." + INTERVALS.en,
        "똑같이 학습한 뒤의 품질과 어텐션만의 시간." + INTERVALS.ko,
    )
    return Findings(Verdict(outcome, text), (table,), Graph(plots, caption, columns=2))


def attention_times() -> dict[str, float]:
    """Return the median seconds of one attention with its gradients, the scores in turns, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    query, memory = (torch.randn(SENTENCES, WORDS, SIZE, requires_grad=True) for _ in range(2))
    layers = {name: Attention("cross", SIZE, SIZE, 64, score_name=name, project_values=False) for name in NAMES}
    seconds: dict[str, list[float]] = {name: [] for name in NAMES}
    for _ in range(ROUNDS):
        for name, layer in layers.items():
            began = time.perf_counter()
            layer(query, layer.prepare(memory, memory)).sum().backward()
            seconds[name].append(time.perf_counter() - began)
    torch.set_num_threads(threads)
    return {name: statistics.median(values[ROUNDS // 5 :]) for name, values in seconds.items()}


EXPERIMENT = Experiment(
    "score",
    Text("Additive, dot, general, cosine", "additive, dot, general, cosine"),
    Text(
        "There is additive attention too, but dot products are quicker.",
        "additive attention도 있지만 dot product가 더 빠르다.",
    ),
    "001, 002, 004",
    Text(
        "A recurrent model is trained with each score; then the attention alone is timed, the scores in turns.",
        "점수만 다른 RNN 모델을 학습하고, 어텐션만 번갈아 시간을 잽니다.",
    ),
    run,
)
