"""Residual: connections on and off, by depth."""

from __future__ import annotations

from collections.abc import Mapping

from regard.common.bilingual import Text
from regard.comparison import Comparison
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Findings, Graph, Outcome, Plot, Table, Verdict, listed
from regard.learn.lab.measures import Contrast, contrast, score_curve, score_of, score_or_failed
from regard.learn.lab.models import transformer

DEPTHS = (1, 3)
NAMES = {"on": Text("with residual connections", "잔차 연결 있음"), "off": Text("without", "잔차 연결 없음")}


def run(bench: Bench) -> Findings:
    """Train Transformers of 1 and 3 layers a side, with and without residual connections."""
    models = {f"{name}-{depth}": transformer(layers=depth, residual=name == "on") for depth in DEPTHS for name in NAMES}
    trained = bench.train(models, bench.choose(600, 900), may_fail=True)
    comparison = bench.compare(trained)
    table = Table(
        Text("Translation (chrF) by the number of layers", "층 수에 따른 번역(chrF)"),
        (Text("layers a side", "한쪽의 층 수"), *NAMES.values()),
        tuple((str(depth), *(score_or_failed(comparison, f"{name}-{depth}") for name in NAMES)) for depth in DEPTHS),
    )
    losses = {
        depth: contrast(comparison, f"on-{depth}", f"off-{depth}")
        for depth in DEPTHS
        if {f"on-{depth}", f"off-{depth}"} <= set(trained.runs)
    }
    clear = [depth for depth in DEPTHS if depth not in losses or losses[depth].is_worse]
    shares = {depth: _share(comparison, depth) for depth in losses}
    is_larger = DEPTHS[-1] not in losses or shares[DEPTHS[-1]] < shares.get(DEPTHS[0], 0)
    outcome: Outcome = "holds" if len(clear) == len(DEPTHS) and is_larger else "partly" if clear else "contradicted"
    text = _text(losses, shares)
    caption = Text("Quality by depth. Bars: 95 % intervals.", "층 수에 따른 품질. 막대: 95 % 구간.")
    curves = tuple(
        score_curve(words, comparison, [f"{name}-{depth}" for depth in DEPTHS]) for name, words in NAMES.items()
    )
    plot = Plot("chrF", Text("layers a side", "한쪽의 층 수"), curves, tuple(str(depth) for depth in DEPTHS))
    return Findings(Verdict(outcome, text), (table,), Graph((plot,), caption))


def _text(losses: Mapping[int, Contrast], shares: Mapping[int, float]) -> Text:
    """Say what the connections change at each depth; a depth without a difference did not learn."""
    failed = [str(depth) for depth in DEPTHS if depth not in losses]
    en = [
        f"{loss} with {depth} layer{'s' * (depth > 1)} a side ({shares[depth]:.0%} is left)"
        for depth, loss in losses.items()
    ]
    ko = [f"한쪽 {depth}층에서 {loss}({shares[depth]:.0%}가 남음)" for depth, loss in losses.items()]
    changes = f"chrF changes by {listed(en, 'en')}" if en else ""
    changes_ko = f"chrF가 {listed(ko, 'ko')}만큼 달라집니다" if ko else ""
    stuck = f"nothing is learnt at a depth of {listed(failed, 'en')}" if failed else ""
    stuck_ko = f"한쪽 {listed(failed, 'ko')}층에서는 학습되지 않습니다" if failed else ""
    return Text(
        f"Without residual connections {'; '.join(filter(None, (changes, stuck)))}.",
        f"잔차 연결을 없애면 {'. '.join(filter(None, (changes_ko, stuck_ko)))}.",
    )


def _share(comparison: Comparison, depth: int) -> float:
    """Return the share of chrF that is left without residual connections."""
    off, on = (score_of(comparison, f"{name}-{depth}").mean for name in ("off", "on"))
    return off / max(on, 1e-9)


EXPERIMENT = Experiment(
    "residual",
    Text("Residual connections by depth", "깊이에 따른 잔차 연결"),
    Text(
        "Residual connections let a sublayer learn only what is different, and make deeper stacks possible.",
        "잔차 연결은 서브층이 차이나는 정보만 배우게 하고, 더 깊은 층을 쌓을 수 있게 한다.",
    ),
    "003",
    Text(
        "Transformers of 1 and of 3 layers a side are trained with and without residual connections.",
        "한쪽이 1층, 3층인 Transformer를 잔차 연결이 있을 때와 없을 때 학습합니다.",
    ),
    run,
)
