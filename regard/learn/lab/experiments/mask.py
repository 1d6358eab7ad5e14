"""Mask: a decoder that sees later words in training learns to copy them, and cannot translate."""

from __future__ import annotations

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Findings, Graph, Plot, Table, Verdict
from regard.learn.lab.measures import contrast, mean_curve, score_text, validations
from regard.learn.lab.models import transformer

NAMES = {
    "masked": Text("causal mask", "마스크 있음"),
    "unmasked": Text("no mask", "마스크 없음"),
}


def run(bench: Bench) -> Findings:
    """Train with and without the causal mask; compare validation loss, which reads the reference, and translation."""
    models = {"masked": transformer(), "unmasked": transformer(decoder={"causal": False})}
    trained = bench.train(models, bench.choose(1000, 1600))
    comparison = bench.compare(trained)
    curves = {
        score: [mean_curve(NAMES[name], [validations(run, score) for run in trained.runs[name]]) for name in NAMES]
        for score in ("loss", "chrf")
    }
    losses = {name: curve.points[-1][1] for name, curve in zip(NAMES, curves["loss"], strict=True)}
    table = Table(
        Text("After training", "학습이 끝난 뒤"),
        (
            Text("model", "모델"),
            Text("validation loss, nats a token", "검증 손실(토큰당 nat)"),
            Text("translation, chrF", "번역, chrF"),
            "BLEU",
        ),
        tuple(
            (NAMES[name], f"{losses[name]:.2f}", score_text(comparison, name), score_text(comparison, name, "BLEU"))
            for name in NAMES
        ),
    )
    titles = {"loss": Text("validation loss, nats a token", "검증 손실(토큰당 nat)"), "chrf": Text("chrF", "chrF")}
    plots = tuple(Plot(titles[score], Text("updates", "업데이트"), tuple(curves[score])) for score in curves)
    caption = Text(
        "Left: loss when the reference is read. Right: quality of what is translated, without a reference to read.",
        "왼쪽: 정답을 읽을 때의 손실. 오른쪽: 정답 없이 번역한 결과의 품질.",
    )
    cheats = losses["unmasked"] < losses["masked"]
    fails = contrast(comparison, "masked", "unmasked").is_worse
    return Findings(
        Verdict(
            "holds" if cheats and fails else "partly" if fails else "contradicted",
            Text(
                f"Without the mask the loss falls to {losses['unmasked']:.2f} nats a token, with it to "
                f"{losses['masked']:.2f}; "
                f"but translations reach chrF {score_text(comparison, 'unmasked')} without it and "
                f"{score_text(comparison, 'masked')} with it.",
                f"마스크가 없으면 손실은 토큰당 {losses['unmasked']:.2f} nat까지(있으면 {losses['masked']:.2f}) "
                "떨어지지만, 번역의 "
                f"chrF는 {score_text(comparison, 'unmasked')}에 그칩니다(있으면 {score_text(comparison, 'masked')}).",
            ),
        ),
        (table,),
        Graph(plots, caption, columns=2),
    )


EXPERIMENT = Experiment(
    "mask",
    Text("Training without the causal mask", "마스크 없이 학습하기"),
    Text(
        "A decoder that sees later words in training cheats: its loss falls, and it cannot translate.",
        "학습할 때 뒤의 단어를 보는 디코더는 일종의 cheating을 하게 되어, 손실은 떨어지지만 번역은 하지 못한다.",
    ),
    "003",
    Text(
        "Two Transformers are trained that differ in the mask of the decoder's self-attention alone.",
        "디코더 셀프 어텐션의 마스크만 다른 두 Transformer를 학습합니다.",
    ),
    run,
)
