"""The decisions of a comparison: which system is better, by how much, where, and at what cost.

One rule holds everywhere: a system is called better if the interval of its difference from the
baseline excludes 0, with p < 0.05. Methods, which have several runs, are compared over their seeds
(Welch), two given models over the test sentences (paired bootstrap).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

from regard.common.bilingual import Text
from regard.comparison.report_numbers import number
from regard.comparison.result import (
    Breakdown,
    Bucket,
    Comparison,
    Cost,
    Lead,
    RunResult,
    SeedScore,
    System,
)
from regard.evaluation.training_report import is_usable

LOWER_IS_BETTER = ("TER",)
FALLING = 0.05
"""Fall of the validation loss, in nats per token, in the last quarter of a run from which on it is
still falling.
"""


def main_score(comparison: Comparison) -> str:
    """Return the name of the deciding score: BLEU, or CIDEr-D for captions; else the first one."""
    names = score_names(comparison)
    wanted = "CIDEr-D" if comparison.task == "captions" else "BLEU"
    return wanted if wanted in names else next(iter(names), "")


def score_names(comparison: Comparison) -> list[str]:
    """Return the names of all scores, in order."""
    return list(
        dict.fromkeys(
            score.name for system in comparison.systems for score in system.scores
        )
    )


def rank(comparison: Comparison, score: str) -> list[tuple[SeedScore, System]]:
    """Return the systems that have this score, each with its mean, the best first."""
    means = list[tuple[SeedScore, System]]()
    for system in comparison.systems:
        mean = system.score(score)
        if mean is not None:
            means.append((mean, system))
    is_reversed = score not in LOWER_IS_BETTER
    return sorted(means, key=lambda pair: pair[0].mean, reverse=is_reversed)


@dataclass(frozen=True)
class Verdict:
    """Difference of a system from the baseline; `lead` is its test, None if there is none.

    `significant` counts the runs, of so many, that differ significantly from the baseline's of the
    same seed in the direction of the means.
    """

    system: str
    difference: float
    lead: Lead | None
    runs: int
    significant: int

    @property
    def kind(self) -> str:
        """The decision: "untested", "chance", "tiny" if it is 0 in the digits that are shown, or
        "significant".
        """
        if self.lead is None:
            return "untested"
        if not self.lead.is_significant:
            return "chance"
        return "tiny" if number(abs(self.difference)) == number(0) else "significant"

    def evidence(self) -> Text:
        """Return interval and p-value of the difference."""
        if self.lead is None:
            return Text(
                "no interval: give both one run, or both several",
                "구간 없음: 양쪽 모두 실행을 하나씩 또는 여럿씩 주세요",
            )
        return self.lead.evidence()

    def run_evidence(self) -> Text:
        """Return how many of several runs differ significantly; empty for a single run."""
        if self.runs == 1:
            return Text("", "")
        return Text(
            f"{self.significant} of {self.runs} runs significant this way",
            f"{self.runs}회 중 {self.significant}회 이 방향으로 유의",
        )


def verdict(comparison: Comparison, system: System, score: str) -> Verdict | None:
    """Compare a system with the baseline; None for the baseline itself, and if either of them lacks
    the score.
    """
    difference = comparison.difference(system, score)
    mean = system.score(score)
    significant = comparison.significant_runs(system, score)
    if difference is None or mean is None or significant is None:
        return None
    runs = len(system.runs)
    return Verdict(system.name, difference, mean.lead, runs, significant)


def judge_others(
    comparison: Comparison, score: str, named: Collection[str]
) -> dict[str, list[Verdict]]:
    """Group the systems that are not in `named` by their decision; those that differ significantly
    are "better" or "worse" than the baseline.
    """
    groups: dict[str, list[Verdict]] = {}
    for system in comparison.systems:
        decision = None if system.name in named else verdict(comparison, system, score)
        if decision is None:
            continue
        kind = decision.kind
        if kind == "significant":
            is_better = (decision.difference > 0) is (score not in LOWER_IS_BETTER)
            kind = "better" if is_better else "worse"
        groups.setdefault(kind, []).append(decision)
    return groups


def length_gaps(
    breakdown: Breakdown, first: str, second: str
) -> list[tuple[Bucket, Bucket, list[float]]]:
    """Return the buckets of length that both systems have, with the lead of the first system and
    its interval, smallest lead first.

    One of the systems must be the baseline.
    """
    second_buckets = {
        bucket.label: bucket for bucket in breakdown.systems.get(second, ())
    }
    gaps = []
    for bucket in breakdown.systems.get(first, ()):
        other = second_buckets.get(bucket.label)
        if other is None:
            continue
        lead = bucket.lead
        if lead is None and other.lead is not None:
            value, low, high = other.lead
            lead = (-value, -high, -low)
        if lead is not None:
            gaps.append((bucket, other, list(lead)))
    return sorted(gaps, key=lambda gap: gap[2][0])


def beyond_training(comparison: Comparison) -> list[str]:
    """Return the labels of the ranges of length beyond the longest source in training."""
    labels = (
        bucket.label
        for breakdown in comparison.breakdowns
        for buckets in breakdown.systems.values()
        for bucket in buckets
        if bucket.is_beyond
    )
    return list(dict.fromkeys(labels))


def timing_engine(comparison: Comparison) -> str:
    """Return the engine that runs were timed with: PyTorch, if it alone can decode some of them."""
    costs = [run.cost for run in comparison.runs if run.cost is not None]
    engines = {cost.decoding.partition(",")[0] for cost in costs}
    return "PyTorch" if len(engines) > 1 else next(iter(engines), "")


def unusable(comparison: Comparison) -> list[tuple[str, float]]:
    """Return the translators that are of no use for drafts, with their mean chrF."""
    if comparison.task == "captions":
        return []
    means = [(system.name, system.score("chrF")) for system in comparison.systems]
    return [
        (name, mean.mean)
        for name, mean in means
        if mean is not None and not is_usable(mean.mean)
    ]


def still_falls(run: RunResult) -> bool:
    """Return whether the validation loss of a run was still falling when its training ended."""
    losses = [
        (point.update, point.scores["loss"])
        for point in run.curve
        if "loss" in point.scores
    ]
    if not losses:
        return False
    last_update, last = losses[-1]
    early = [loss for update, loss in losses if update <= 0.75 * last_update]
    return bool(early) and min(early) - last >= FALLING


def costs_of(comparison: Comparison, system: str) -> list[Cost]:
    """Return the known costs of the runs of a system."""
    return [
        run.cost
        for run in comparison.runs
        if run.system == system and run.cost is not None
    ]


@dataclass(frozen=True)
class Ratio:
    """A cost of one system divided by that of another, with its range over rounds or runs."""

    value: float
    low: float
    high: float


def ratio(first: Sequence[float], second: Sequence[float]) -> Ratio | None:
    """Divide the median of the first values by that of the second; None unless both have several
    values, which do not overlap.
    """
    if min(len(first), len(second)) < 2:
        return None
    result = Ratio(
        median(first) / median(second),
        min(first) / max(second),
        max(first) / min(second),
    )
    return None if result.low <= 1 <= result.high else result


def speed_ratio(first: Cost, second: Cost) -> Ratio | None:
    """Return the ratio of tokens per second; None if rounds overlap, or if the latency does not
    agree on the faster one.
    """
    speeds = ratio(first.speeds, second.speeds)
    latencies = ratio(first.latencies, second.latencies)
    if speeds is None or latencies is None:
        return None
    return speeds if (speeds.value > 1) is (latencies.value < 1) else None
