"""Heads: 1 to 8 heads at equal size: quality, weights and operations."""

from __future__ import annotations

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Findings, Graph, Outcome, Plot, Table, Verdict, listed
from regard.learn.lab.measures import contrast, score_curve, score_text
from regard.learn.lab.models import transformer

HEADS = (1, 2, 4, 8)
NAMES = [f"heads-{count}" for count in HEADS]


def run(bench: Bench) -> Findings:
    """Train Transformers of size 64 that split it into 1, 2, 4 and 8 heads."""
    models = {name: transformer(heads=count) for name, count in zip(NAMES, HEADS, strict=True)}
    trained = bench.train(models, bench.choose(800, 1200))
    comparison = bench.compare(trained)
    costs = {}
    for system in comparison.systems:
        cost = comparison.run(system.runs[0]).cost
        assert cost is not None, "a run has a cost"
        costs[system.name] = cost
    table = Table(
        Text("Quality and cost by the number of heads", "헤드 수에 따른 품질과 비용"),
        (
            Text("heads", "헤드"),
            Text("size of each", "헤드 하나의 크기"),
            "chrF",
            Text("weights", "가중치 수"),
            Text("multiply-adds a token", "토큰당 곱셈-덧셈"),
        ),
        tuple(
            (
                str(count),
                str(64 // count),
                score_text(comparison, name),
                f"{costs[name].weights:,}",
                f"{costs[name].operations:,.0f}",
            )
            for name, count in zip(NAMES, HEADS, strict=True)
        ),
    )
    gains = {count: contrast(comparison, NAMES[0], name) for name, count in zip(NAMES, HEADS, strict=True) if count > 1}
    operations = [costs[name].operations for name in NAMES]
    spread = max(operations) / min(operations) - 1
    equal = spread < 0.02 and len({costs[name].weights for name in NAMES}) == 1
    helps = [count for count, gain in gains.items() if gain.is_better]
    outcome: Outcome = "holds" if equal and helps else "partly" if equal else "contradicted"
    changes = listed([f"{gain} with {count}" for count, gain in gains.items()], "en")
    changes_ko = listed([f"{count}개일 때 {gain}" for count, gain in gains.items()], "ko")
    text = Text(
        f"All have {costs[NAMES[0]].weights:,} weights, and their multiply-adds differ by {spread:.1%}. Against one "
        "head "
        f"chrF changes by {changes} heads.",
        f"모두 가중치가 {costs[NAMES[0]].weights:,}개이고 곱셈-덧셈 수는 {spread:.1%}만 다릅니다. 헤드 하나와 비교한 "
        "chrF의 "
        f"차이는 헤드가 {changes_ko}입니다.",
    )
    caption = Text("Quality by the number of heads. Bars: 95 % intervals.", "헤드 수에 따른 품질. 막대: 95 % 구간.")
    curve = score_curve("chrF", comparison, NAMES)
    plot = Plot("chrF", Text("heads", "헤드 수"), (curve,), tuple(str(count) for count in HEADS))
    return Findings(Verdict(outcome, text), (table,), Graph((plot,), caption))


EXPERIMENT = Experiment(
    "heads",
    Text("One head or several", "헤드 하나와 여러 헤드"),
    Text(
        "Several heads look at different things, which helps, and cost about as much as one head of full size.",
        "여러 헤드는 서로 다른 곳을 보아 도움이 되고, 비용은 전체 크기의 헤드 하나와 비슷하다.",
    ),
    "002, 003",
    Text(
        "Transformers of one size that differ in the number of heads alone are trained equally long.",
        "헤드 수만 다른 같은 크기의 Transformer를 똑같이 학습합니다.",
    ),
    run,
)
