"""Directions: a recurrent encoder that reads in one direction, or in both, of equal size."""

from __future__ import annotations

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Findings, Graph, Outcome, Plot, Table, Verdict
from regard.learn.lab.measures import MODEL, by_length, contrast, length_curves, score_text
from regard.learn.lab.models import recurrent

NAMES = {
    "one": Text("one direction", "단방향"),
    "two": Text("two directions", "양방향"),
    "attention": Text("two directions and attention", "양방향과 어텐션"),
}


def run(bench: Bench) -> Findings:
    """Train an encoder of 128 forwards, one of 64 forwards and 64 backwards, and the latter with attention."""
    models = {
        "one": recurrent("no_attention", {"size": 128, "bidirectional": False}),
        "two": recurrent("no_attention"),
        "attention": recurrent(),
    }
    trained = bench.train(models, bench.choose(1300, 2000))
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
    gain, rest = contrast(comparison, "one", "two"), contrast(comparison, "two", "attention")
    outcome: Outcome = "contradicted"
    if rest.is_better:
        outcome = "holds" if gain.is_better else "partly"
    text = Text(
        f"The second direction changes chrF by {gain}, attention after it by {rest}: "
        + ("two directions help, and most of the loss remains." if gain.is_better else "the loss remains."),
        f"두 번째 방향을 더하면 chrF가 {gain}, 거기에 어텐션을 더하면 {rest}만큼 달라집니다. "
        + ("양방향은 도움이 되지만 손실은 대부분 남습니다." if gain.is_better else "손실은 그대로 남습니다."),
    )
    caption = Text("Quality by sentence length. Bars: 95 % intervals.", "문장 길이별 품질. 막대: 95 % 구간.")
    graph = Graph((Plot("chrF", Text("source words", "원문 단어 수"), curves, labels),), caption)
    return Findings(Verdict(outcome, text), (table,), graph)


EXPERIMENT = Experiment(
    "directions",
    Text("Reading in one direction, or in both", "한 방향으로 읽기, 두 방향으로 읽기"),
    Text(
        "Reading in both directions only mends the loss of information, and does not end it.",
        "양방향으로 읽어도 정보 손실은 보완만 될 뿐 완벽히 해결되지 않는다.",
    ),
    "003",
    Text(
        "Recurrent encoders of equal size, in one direction and in both, hand over one vector; a third model attends.",
        "크기가 같은 단방향, 양방향 RNN 인코더가 벡터 하나를 넘겨주고, 세 번째 모델은 어텐션을 씁니다.",
    ),
    run,
)
