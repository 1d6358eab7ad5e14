"""Captions: with attention to the image's cells, without, and of an image that cannot be seen."""

from __future__ import annotations

from typing import Any

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Findings, Graph, Outcome, Verdict
from regard.learn.lab.measures import contrast, score_of, score_plot, score_table

NAMES = {
    "attention": Text("attention to the cells", "칸마다 어텐션"),
    "vector": Text("one vector of the image", "이미지의 벡터 하나"),
    "blind": Text("attention to a grey image", "회색 이미지에 어텐션"),
}
SCORE = "CIDEr-D"


def run(bench: Bench) -> Findings:
    """Train captioners that attend, that get one vector, and that see grey; caption images of new combinations."""
    models = {
        "attention": captioner("recurrent"),
        "vector": captioner("no_attention"),
        "blind": captioner("recurrent", blank=True),
    }
    trained = bench.train(models, bench.choose(500, 800), of_images=True)
    comparison = bench.compare(trained, "test.en.tsv")
    table = score_table(
        Text("Captions of the test images", "시험 이미지의 캡션"), comparison, NAMES, ("BLEU-1", "BLEU-4", SCORE)
    )
    gain, sight = contrast(comparison, "vector", "attention", SCORE), contrast(comparison, "blind", "attention", SCORE)
    outcome: Outcome = "contradicted"
    if sight.is_better:
        outcome = "holds" if gain.is_better else "partly"
    blind = score_of(comparison, "blind", SCORE).mean
    text = Text(
        f"Attention changes CIDEr-D by {gain} against one vector of the whole image. A captioner that sees nothing but "
        f"grey reaches {blind:.1f}: so much can be guessed.",
        f"어텐션은 이미지 전체의 벡터 하나와 비교해 CIDEr-D를 {gain}만큼 바꿉니다. 회색만 보는 모델도 {blind:.1f}에 "
        "이르는데, "
        "이만큼은 짐작할 수 있다는 뜻입니다.",
    )
    caption = Text(
        "Captions of images whose combinations were never trained. Bars: 95 % intervals.",
        "학습에 없던 조합의 이미지에 대한 캡션. 막대: 95 % 구간.",
    )
    return Findings(Verdict(outcome, text), (table,), Graph((score_plot(comparison, NAMES, SCORE),), caption))


def captioner(decoder: str, blank: bool = False) -> dict[str, Any]:
    """Make the recipe of a captioner: a small ResNet, and a recurrent decoder with attention or without."""
    common = {"kind": decoder, "size": 128, "embedding": 64, "dropout": 0.1}
    own = {"context": "every"} if decoder == "no_attention" else {"order": "luong", "score": "general"}
    encoder = {"kind": "resnet", "depths": [1, 1], "width": 16, "size": 64, "group_size": 4, "dropout": 0.1}
    return {
        "data": {"images": {"height": 72, "width": 72, "cell": 4, "blank": blank}},
        "tokenizer": {"kind": "whitespace"},
        "model": {"encoder": {**encoder, "positions": "learned"}, "decoder": {**common, **own}},
        "batching": {"tokens": 16 * 324, "buffer_size": 256, "micro_batches": 1},
        "schedule": {"peak": 4e-3},
    }


EXPERIMENT = Experiment(
    "captions",
    Text("Captions with and without attention", "어텐션이 있는 캡션과 없는 캡션"),
    Text(
        "Looking at the part of the image that is being described makes better captions.",
        "이미지에서 지금 말하는 부분을 보면 캡션이 더 좋아진다.",
    ),
    "000",
    Text(
        "Captioners of drawn images that attend to cells, that get one vector, and that see only grey are trained.",
        "그린 이미지의 캡션 모델을 칸마다 어텐션, 벡터 하나, 회색 이미지의 세 가지로 학습합니다.",
    ),
    run,
)
