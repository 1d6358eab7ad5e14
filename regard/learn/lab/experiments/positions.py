"""Positions: sinusoids, learned vectors or none; and what happens to a sentence whose words change places."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from regard.common.bilingual import Text
from regard.data.text import read_parallel
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Findings, Graph, Outcome, Plot, Table, Verdict
from regard.learn.lab.measures import contrast, score_of, score_plot, score_text
from regard.learn.lab.models import transformer
from regard.models import Batch, Model
from regard.pipeline import load_translator

NAMES = {
    "sinusoidal": Text("sinusoids", "사인·코사인"),
    "learned": Text("learned", "학습한 위치"),
    "none": Text("none", "없음"),
}
ORDERS = {"plain": Text("as written", "원래 순서"), "shuffled": Text("shuffled", "뒤섞은 순서")}


def run(bench: Bench) -> Findings:
    """Train with each kind of positions; translate the test sentences as they are, and with their words shuffled."""
    models = {name: transformer(positions=name) for name in NAMES}
    trained = bench.train(models, bench.choose(900, 1400))
    folder = bench.texts()
    sources, targets = read_parallel([str(folder / "test.ko"), str(folder / "test.en")])
    plain = bench.compare(trained)
    shuffled = bench.compare(trained, "shuffled", list(zip(map(shuffle, sources), targets, strict=True)))
    moved = {name: movement(trained.runs[name][0]) for name in NAMES}
    table = Table(
        Text(
            "Translation (chrF), and how far the encoder's vectors move if “나는 집에 간다” becomes “집에 간다 나는”",
            "번역(chrF)과, “나는 집에 간다”가 “집에 간다 나는”이 될 때 인코더 벡터가 움직이는 거리",
        ),
        (Text("positions", "위치 정보"), *ORDERS.values(), Text("largest change of a vector", "벡터의 최대 변화")),
        tuple(
            (NAMES[name], score_text(plain, name), score_text(shuffled, name), f"{moved[name]:.6f}") for name in NAMES
        ),
    )
    loses = contrast(plain, "sinusoidal", "none")
    keeps = abs(score_of(plain, "none").mean - score_of(shuffled, "none").mean)
    blind = moved["none"] < 1e-4 < moved["sinusoidal"]
    outcome: Outcome = "holds" if blind and loses.is_worse else "partly" if blind else "contradicted"
    text = Text(
        f"Without positions the same words in another order give the same vectors (largest change {moved['none']:.6f}; "
        f"with sinusoids {moved['sinusoidal']:.2f}), and shuffled sentences are translated as well as others (chrF "
        f"differs by {keeps:.1f}). What order says is lost: chrF changes by {loses} against sinusoids.",
        f"위치 정보가 없으면 같은 단어의 순서를 바꾸어도 벡터가 같습니다(최대 변화 {moved['none']:.6f}, "
        "사인·코사인이 있으면 "
        f"{moved['sinusoidal']:.2f}). 뒤섞은 문장도 똑같이 번역합니다(chrF 차이 {keeps:.1f}). 순서에 담긴 정보는 "
        "사라져, "
        f"사인·코사인과 비교한 chrF 차이는 {loses}입니다.",
    )
    caption = Text(
        "Translation of the test sentences, and of the same sentences with their words shuffled. Bars: 95 % intervals.",
        "시험 문장과, 단어를 뒤섞은 같은 문장의 번역. 막대: 95 % 구간.",
    )
    curves = [
        replace(curve, paint=paint, name=ORDERS[order])
        for paint, (order, part) in enumerate(zip(ORDERS, (plain, shuffled), strict=True))
        for curve in score_plot(part, NAMES).curves
    ]
    plot = Plot("chrF", "", tuple(curves), tuple(NAMES.values()))
    return Findings(Verdict(outcome, text), (table,), Graph((plot,), caption))


def shuffle(line: str) -> str:
    """Put the words of a line into another order, always the same one."""
    words = line.split()
    random.Random(line).shuffle(words)
    return " ".join(words)


@torch.no_grad()
def movement(folder: Path) -> float:
    """Return how far the encoder's vectors of three words move, at most, if the words change places."""
    translator = load_translator(folder)
    vocabulary, model = translator.tokenizer.source, translator.model
    words = ["나는", "집에", "간다"]
    assert isinstance(model, Model), "a run is one model"
    tokens = [vocabulary.encode(word) for word in words]
    outputs: list[Any] = []
    for order in ((0, 1, 2), (1, 2, 0)):
        ids = torch.tensor([[token for place in order for token in tokens[place]]])
        encoded = model.encoder(Batch(ids)).outputs[0].split([len(tokens[place]) for place in order])
        outputs.append(torch.cat([encoded[order.index(place)] for place in range(3)]))
    return float((outputs[0] - outputs[1]).norm(dim=-1).max())


EXPERIMENT = Experiment(
    "positions",
    Text("Attention without positions", "위치 정보가 없는 어텐션"),
    Text(
        "Without positions a Transformer does not see the order of words: reordered input gives the same output.",
        "위치 정보가 없으면 Transformer는 단어의 순서를 보지 못해, 순서를 바꾼 입력에도 같은 출력을 낸다.",
    ),
    "003",
    Text(
        "Transformers with sinusoidal, learned and no positions are trained, and translate sentences and shuffled "
        "ones.",
        "사인·코사인, 학습한 위치, 위치 없음의 세 Transformer를 학습해 문장과 뒤섞은 문장을 번역합니다.",
    ),
    run,
)
