"""Teacher forcing: decoder inputs from the reference, from its own outputs, or half of each."""

from __future__ import annotations

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Findings, Graph, Outcome, Plot, Table, Verdict
from regard.learn.lab.measures import MODEL, contrast, mean_curve, score_text, validations
from regard.learn.lab.models import recurrent
from regard.training.journal import read

SHARES = {"forced": 0.0, "mixed": 0.5, "own": 1.0}
NAMES = {
    "forced": Text("the reference (teacher forcing)", "정답(teacher forcing)"),
    "mixed": Text("half of each", "반반"),
    "own": Text("its own outputs", "자기 출력"),
}


def run(bench: Bench) -> Findings:
    """Train recurrent models with attention that read the reference, their own outputs, or half of each."""
    models = {
        name: {**recurrent(), "training": {"scheduled_sampling": share, "scheduled_sampling_ramp": 0}}
        for name, share in SHARES.items()
    }
    trained = bench.train(models, bench.choose(900, 1500))
    comparison = bench.compare(trained)
    seconds = {}
    for name, folders in trained.runs.items():
        ends = [event for folder in folders for event in read(folder / "journal.jsonl") if event["event"] == "end"]
        seconds[name] = sum(event["seconds"] / event["update"] for event in ends) / len(ends)
    table = Table(
        Text("Translation after training", "학습한 뒤의 번역"),
        (MODEL, "chrF", "BLEU", Text("milliseconds an update", "업데이트당 밀리초")),
        tuple(
            (
                NAMES[name],
                score_text(comparison, name),
                score_text(comparison, name, "BLEU"),
                f"{1000 * seconds[name]:.0f}",
            )
            for name in NAMES
        ),
    )
    mixed, own = contrast(comparison, "mixed", "forced"), contrast(comparison, "own", "forced")
    outcome: Outcome = "contradicted"
    if own.is_better:
        outcome = "partly" if mixed.is_worse else "holds"
    text = Text(
        f"Teacher forcing changes chrF by {own} against own outputs alone, and by {mixed} against half of each; an "
        "update "
        f"takes {seconds['own'] / seconds['forced']:.1f} times as long with own outputs, which are drawn in a pass "
        "before.",
        f"teacher forcing의 chrF는 자기 출력만 읽을 때보다 {own}, 반반일 때보다 {mixed}만큼 다릅니다. 자기 출력은 "
        "앞선 한 "
        f"번의 계산으로 뽑으므로 업데이트 시간이 {seconds['own'] / seconds['forced']:.1f}배 걸립니다.",
    )
    curves = tuple(
        mean_curve(words, [validations(folder, "chrf") for folder in trained.runs[name]])
        for name, words in NAMES.items()
    )
    caption = Text("Quality in training, on validation sentences.", "학습하는 동안 검증 문장의 품질.")
    return Findings(
        Verdict(outcome, text), (table,), Graph((Plot("chrF", Text("updates", "업데이트"), curves),), caption)
    )


EXPERIMENT = Experiment(
    "teacher-forcing",
    Text("What the decoder reads in training", "학습할 때 디코더가 읽는 것"),
    Text(
        "In training the decoder mostly reads the reference (teacher forcing) rather than its own last output.",
        "학습할 때 디코더 입력으로는 직전 출력보다 정답을 밀어넣는 teacher forcing을 많이 쓴다.",
    ),
    "000, 002",
    Text(
        "Recurrent models with attention are trained on the reference, on words they draw themselves, and on half of "
        "each.",
        "어텐션이 있는 RNN 모델을 정답, 스스로 뽑은 단어, 또는 반반을 읽게 하여 학습합니다.",
    ),
    run,
)
