"""Bottleneck: one vector for the whole sentence, of several sizes, by sentence length."""

from __future__ import annotations

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Findings, Graph, Outcome, Plot, Table, Verdict
from regard.learn.lab.measures import MODEL, by_length, length_curves, score_text
from regard.learn.lab.models import recurrent

SIZES = (32, 128, 256)
NAMES = {f"vector-{size}": Text(f"{size} numbers", f"숫자 {size}개") for size in SIZES}


def run(bench: Bench) -> Findings:
    """Train models without attention whose one vector is small, middling and large; translate all lengths."""
    models = {
        name: recurrent("no_attention", {"size": size // 2}, size=size) for name, size in zip(NAMES, SIZES, strict=True)
    }
    trained = bench.train(models, bench.choose(1200, 2000))
    comparison = bench.compare(trained, "length")
    lengths, (labels, curves) = by_length(comparison), length_curves(comparison, NAMES)
    table = Table(
        Text("Quality (chrF) by the words of the source", "원문 단어 수별 품질(chrF)"),
        (MODEL, *labels, Text("all", "전체")),
        tuple(
            (NAMES[name], *(f"{part.value:.1f}" for part in lengths[name]), score_text(comparison, name))
            for name in NAMES
        ),
    )
    short = {name: parts[0] for name, parts in lengths.items()}
    long = {name: parts[-1] for name, parts in lengths.items()}
    small, large = (list(NAMES)[place] for place in (0, -1))
    falls = all(long[name].high < short[name].low for name in NAMES)
    outcome: Outcome = "holds" if falls else "partly" if long[small].high < short[small].low else "contradicted"
    verdict = Text(
        f"With a vector of {SIZES[0]} numbers chrF is {short[small].value:.0f} at {short[small].label} words and "
        f"{long[small].value:.0f} at {long[small].label}; with {SIZES[-1]} numbers {short[large].value:.0f} and "
        f"{long[large].value:.0f}. A larger vector holds more, and long sentences do not fit into it either.",
        f"벡터가 숫자 {SIZES[0]}개이면 chrF가 {short[small].label}단어에서 {short[small].value:.0f}, "
        f"{long[small].label}단어에서 {long[small].value:.0f}이고, {SIZES[-1]}개이면 {short[large].value:.0f}과(와) "
        f"{long[large].value:.0f}입니다. 벡터가 크면 더 담기지만 긴 문장은 여전히 다 담기지 않습니다.",
    )
    caption = Text(
        "Quality by sentence length of models that hand over one vector. Bars: 95 % intervals.",
        "벡터 하나를 넘겨주는 모델의 문장 길이별 품질. 막대: 95 % 구간.",
    )
    graph = Graph((Plot("chrF", Text("source words", "원문 단어 수"), curves, labels),), caption)
    return Findings(Verdict(outcome, verdict), (table,), graph)


EXPERIMENT = Experiment(
    "bottleneck",
    Text("One vector for a whole sentence", "문장 전체를 담는 벡터 하나"),
    Text(
        "A vector of fixed size is a bottleneck: the longer the sentence, the less of it arrives.",
        "크기가 정해진 벡터 하나는 정보의 병목이어서, 문장이 길수록 전해지는 정보가 줄어든다.",
    ),
    "000, 002",
    Text(
        "Recurrent models without attention, whose vector has 32, 128 or 256 numbers, are trained equally long.",
        "벡터의 크기가 32, 128, 256인 어텐션 없는 RNN 모델을 똑같이 학습합니다.",
    ),
    run,
)
