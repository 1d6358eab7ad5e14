"""Attention: quality by sentence length, with and without it (the graph of note 001)."""

from __future__ import annotations

from collections.abc import Mapping

from regard.common.bilingual import Text
from regard.comparison.result import Bucket
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Findings, Graph, Outcome, Plot, Table, Verdict
from regard.learn.lab.measures import by_length, contrast, length_curves, score_text
from regard.learn.lab.models import recurrent

NAMES = {
    "without": Text("without attention", "어텐션 없음"),
    "with": Text("with attention", "어텐션 있음"),
}


def run(bench: Bench) -> Findings:
    """Train both models equally long, and translate sentences of all lengths."""
    models = {"without": recurrent("no_attention"), "with": recurrent()}
    trained = bench.train(models, bench.choose(2400, 4000))
    comparison = bench.compare(trained, "length")
    lengths = by_length(comparison)
    drops = {name: parts[0].value - parts[-1].value for name, parts in lengths.items()}
    overall = contrast(comparison, "without", "with")
    labels, curves = length_curves(comparison, NAMES)
    table = Table(
        Text("Quality (chrF) by the words of the source", "원문 단어 수별 품질(chrF)"),
        (Text("model", "모델"), *labels, Text("all", "전체")),
        tuple(
            (NAMES[name], *(f"{part.value:.1f}" for part in parts), score_text(comparison, name))
            for name, parts in lengths.items()
        ),
    )
    graph = Graph(
        (Plot("chrF", Text("source words", "원문 단어 수"), curves, labels),),
        Text(
            "Quality by sentence length. Bars: 95 % intervals over sentences and seeds.",
            "문장 길이별 품질. 막대: 문장과 시드에 대한 95 % 구간.",
        ),
    )
    return Findings(_verdict(overall.is_better, drops, lengths), (table,), graph)


def _verdict(is_better: bool, drops: Mapping[str, float], lengths: Mapping[str, tuple[Bucket, ...]]) -> Verdict:
    ends = {name: (parts[0], parts[-1]) for name, parts in lengths.items()}
    (short, long), (short_with, long_with) = ends["without"], ends["with"]
    holds = is_better and drops["without"] > 2 * drops["with"]
    outcome: Outcome = "holds" if holds else "partly" if is_better else "contradicted"
    return Verdict(
        outcome,
        Text(
            f"Without attention chrF falls from {short.value:.0f} at {short.label} words to {long.value:.0f} at "
            f"{long.label}; with attention it falls from {short_with.value:.0f} to {long_with.value:.0f}.",
            f"어텐션이 없으면 chrF가 {short.label}단어의 {short.value:.0f}에서 {long.label}단어의 "
            f"{long.value:.0f}(으)로 "
            f"떨어지고, 어텐션이 있으면 {short_with.value:.0f}에서 {long_with.value:.0f}(으)로 떨어집니다.",
        ),
    )


EXPERIMENT = Experiment(
    "attention",
    Text("Quality by sentence length, with and without attention", "문장 길이별 품질: 어텐션이 있을 때와 없을 때"),
    Text(
        "Without attention translation gets worse as sentences get longer; with attention it does not.",
        "어텐션이 없으면 문장이 길어질수록 번역 품질이 떨어지고, 어텐션이 있으면 그렇지 않다.",
    ),
    "000, 001",
    Text(
        "Two recurrent models that differ in attention alone are trained equally long, and translate sentences of "
        "all lengths.",
        "어텐션만 다른 두 RNN 모델을 똑같이 학습하고, 모든 길이의 문장을 번역합니다.",
    ),
    run,
)
