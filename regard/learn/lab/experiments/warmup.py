"""Warm-up: the learning rate that rises and falls, one that stays after its rise, and one that never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.common.bilingual import Text
from regard.learn.lab.bench import Bench
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import Curve, Findings, Graph, Outcome, Plot, Verdict, listed
from regard.learn.lab.measures import Contrast, contrast, mean_curve, score_table, validations
from regard.learn.lab.models import transformer
from regard.training.schedule import ScheduleSettings, learning_rate

SIZE = 64
NAMES = {
    "noam": Text("warm-up, then decay (noam)", "워밍업 뒤 감소(noam)"),
    "warm-constant": Text("warm-up, then constant", "워밍업 뒤 고정"),
    "constant": Text("constant from the start", "처음부터 고정"),
}


def run(bench: Bench) -> Findings:
    """Train the published (post-norm) Transformer with three schedules that have one highest rate."""
    updates = bench.choose(1000, 1700)
    schedules = _schedules(updates)
    models = {
        name: {**transformer(norm="post", layers=3), "schedule": schedule} for name, schedule in schedules.items()
    }
    trained = bench.train(models, updates, may_fail=True)
    comparison = bench.compare(trained)
    table = score_table(Text("Translation after training", "학습한 뒤의 번역"), comparison, NAMES)
    rates = [
        Curve(NAMES[name], tuple((float(u), _rate(values, u)) for u in range(1, updates + 1, max(1, updates // 60))))
        for name, values in schedules.items()
    ]
    losses = [
        mean_curve(NAMES[name], [validations(folder, "loss") for folder in trained.runs[name]])
        for name in NAMES
        if name in trained.runs
    ]
    gains = {
        name: contrast(comparison, name, "noam")
        for name in ("warm-constant", "constant")
        if {name, "noam"} <= set(trained.runs)
    }
    better = "noam" in trained.runs and ("constant" not in gains or gains["constant"].is_better)
    outcome: Outcome = "contradicted"
    if better:
        outcome = "holds" if "warm-constant" not in gains or gains["warm-constant"].is_better else "partly"
    text = _text(gains, list(trained.failed))
    plots = (
        Plot(Text("learning rate", "학습률"), Text("updates", "업데이트"), tuple(rates)),
        Plot(
            Text("validation loss, nats a token", "검증 손실(토큰당 nat)"), Text("updates", "업데이트"), tuple(losses)
        ),
    )
    caption = Text("Learning rates, and validation loss with them.", "학습률과, 그에 따른 검증 손실.")
    return Findings(Verdict(outcome, text), (table,), Graph(plots, caption, columns=2))


def _text(gains: Mapping[str, Contrast], failed: Sequence[str]) -> Text:
    """Say how warm-up with decay differs from the other schedules, and which of them did not learn."""
    en = listed([f"{gain} against “{NAMES[name].en}”" for name, gain in gains.items()], "en")
    ko = listed([f"“{NAMES[name].ko}”에 비해 {gain}" for name, gain in gains.items()], "ko")
    changes = [f"Warm-up with decay changes chrF by {en}."] if gains else []
    changes_ko = [f"워밍업 뒤 감소하는 학습률의 chrF는 {ko}만큼 다릅니다."] if gains else []
    return Text(
        " ".join([*changes, *(f"“{NAMES[name].en}” did not learn." for name in failed)]),
        " ".join([*changes_ko, *(f"“{NAMES[name].ko}”은 학습되지 않았습니다." for name in failed)]),
    )


def _schedules(updates: int) -> dict[str, dict[str, Any]]:
    """Make schedules whose highest rate is that of noam with warm-up over a third of the updates."""
    warmup = updates // 3
    peak = (SIZE * warmup) ** -0.5
    return {
        "noam": {"kind": "noam", "warmup": warmup},
        "warm-constant": {"kind": "constant", "peak": peak, "warmup": warmup},
        "constant": {"kind": "constant", "peak": peak, "warmup": 0},
    }


def _rate(values: dict[str, Any], update: int) -> float:
    return learning_rate(ScheduleSettings.parse(values, "the experiment"), update, SIZE)


EXPERIMENT = Experiment(
    "warmup",
    Text("Warm-up of the learning rate", "학습률 워밍업"),
    Text(
        "The learning rate that suits training changes on the way, so a schedule with warm-up is better than a fixed "
        "one.",
        "효율적인 학습률은 학습하는 동안 바뀌므로, 워밍업 스케줄이 고정된 학습률보다 낫다.",
    ),
    "003",
    Text(
        "The published Transformer (3 + 3 layers) is trained with three schedules that have the same highest rate.",
        "논문대로 만든 3 + 3층 Transformer를 최고값이 같은 세 가지 학습률로 학습합니다.",
    ),
    run,
)
