"""Norm: layer norm before or after, batch norm, none; and the worked example of note 003."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Findings, Graph, Outcome, Plot, Table, Verdict
from regard.learn.lab.measures import contrast, mean_curve, score_table, validations
from regard.learn.lab.models import transformer

NAMES = {
    "post": Text("layer norm after, as published", "층 정규화, 뒤(논문)"),
    "pre": Text("layer norm before", "층 정규화, 앞"),
    "batch": Text("batch norm after", "배치 정규화, 뒤"),
    "none": Text("none", "없음"),
}
EXAMPLE = (3.0, 5.0, -2.0)
"""Outputs of one node for a batch of three, normalised, then y = 2x + 3."""


def run(bench: Bench) -> Findings:
    """Train deeper Transformers with each norm; work the note's example."""
    models = {name: transformer(norm=name, layers=3) for name in NAMES}
    trained = bench.train(models, bench.choose(500, 800), may_fail=True)
    comparison = bench.compare(trained)
    table = score_table(Text("Translation after training", "학습한 뒤의 번역"), comparison, NAMES)
    curves = [
        mean_curve(words, [validations(folder, "loss") for folder in trained.runs[name]])
        for name, words in NAMES.items()
        if name in trained.runs
    ]
    steadies = {
        name: "none" in trained.failed or contrast(comparison, "none", name).is_better
        for name in ("post", "pre", "batch")
        if name in trained.runs
    }
    better = [name for name, is_better in steadies.items() if is_better]
    outcome: Outcome = "holds" if len(better) == 3 else "partly" if better else "contradicted"
    changes = {
        name: "" if "none" in trained.failed or name not in trained.runs else str(contrast(comparison, "none", name))
        for name in ("post", "pre", "batch")
    }
    text = Text(
        "Differences in chrF against no normalisation: "
        + "; ".join(f"{NAMES[name].en} {change or 'only one of the two learns'}" for name, change in changes.items())
        + ".",
        "정규화가 없을 때와 비교한 chrF의 차이: "
        + "; ".join(f"{NAMES[name].ko}: {change or '한쪽만 학습됨'}" for name, change in changes.items())
        + ".",
    )
    caption = Text(
        "Validation loss in training, on logarithmic axes.", "학습하는 동안의 검증 손실(두 축 모두 로그 눈금)."
    )
    plot = Plot(
        Text("validation loss, nats a token", "검증 손실(토큰당 nat)"), Text("updates", "업데이트"), tuple(curves)
    )
    return Findings(Verdict(outcome, text), (table, _worked_example()), Graph((plot,), caption, "log"), REMARKS)


REMARKS = (
    Text(
        "Note 003 says that y = 2x + 3 gives mean 3 and variance 2, and two lines later that the variance is the "
        "square of the slope: it is 4.",
        "노트 003은 y = 2x + 3의 평균과 분산이 (3, 2)라고 하지만, 바로 아래에 적힌 대로 분산은 기울기의 제곱이므로 "
        "4입니다.",
    ),
)


def _worked_example() -> Table:
    values = torch.tensor(EXAMPLE)
    normed = F.batch_norm(values[:, None], None, None, training=True, eps=1e-12)[:, 0]
    moved = 2 * normed + 3
    rows = []
    names = (Text("output of the node", "노드의 출력"), Text("normalised", "정규화"), Text("2x + 3", "2x + 3"))
    for name, row in zip(names, (values, normed, moved), strict=True):
        numbers = ", ".join(f"{x:.3f}" for x in row.tolist()).replace("-", "−")
        rows.append((name, numbers, f"{float(row.mean()):.3f}", f"{float(row.var(unbiased=False)):.3f}"))
    return Table(
        Text("Batch norm of (3, 5, −2), then y = 2x + 3", "(3, 5, −2)의 배치 정규화와 y = 2x + 3"),
        (Text("step", "단계"), Text("numbers", "숫자"), Text("mean", "평균"), Text("variance", "분산")),
        tuple(rows),
    )


EXPERIMENT = Experiment(
    "norm",
    Text("Normalisation: layer, batch, none", "정규화: 층, 배치, 없음"),
    Text(
        "Batch norm and layer norm both steady learning.",
        "배치 정규화와 층 정규화는 모두 학습을 안정화한다.",
    ),
    "003",
    Text(
        "Transformers of 3 + 3 layers with each normalisation are trained equally long.",
        "정규화 방식만 다른 3 + 3층 Transformer를 똑같이 학습합니다.",
    ),
    run,
)
