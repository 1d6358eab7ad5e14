"""The decisions of a comparison: which system is better, by how much, where, and at what cost.

A system is called better only if each of its runs scores higher than the run against which it is
tested, with p < 0.05. The template `summary.html` holds the sentences.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from regard.common.bilingual import Text
from regard.comparison.report_numbers import probability
from regard.comparison.result import Breakdown, Bucket, Comparison, SeedScore, System

LEVEL = 0.05
"""A difference with a smaller p-value is called significant."""
LOWER_IS_BETTER = ("TER",)


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
    """Difference of a system from the baseline, and its significance.

    `p` holds the p-values of its runs. `significant` counts the runs that differ with p < 0.05 in
    the direction of the means.
    """

    system: str
    difference: float  # mean of the system minus that of the baseline
    p: tuple[float, ...]
    runs: int
    significant: int

    @property
    def is_certain(self) -> bool:
        """True if the difference of every run is significant."""
        return self.significant == self.runs > 0

    def p_text(self) -> str:
        """Return the p-values as text: one, or the smallest and the largest."""
        low = probability(min(self.p))
        high = probability(max(self.p))
        sign = "" if low.startswith("<") else "= "
        if low == high:
            return f"p {sign}{low}"
        return f"p {low}–{high}".replace("< ", "<\u2009")

    def evidence(self) -> Text:
        """Return the p-value of a single run, or the number of significant runs."""
        if not self.p:
            return Text("no p-value", "p값 없음")
        if self.runs == 1:
            return Text(self.p_text(), self.p_text())
        english = f"p < {LEVEL} this way in {self.significant} of {self.runs} runs"
        return Text(
            english, f"{self.runs}회 중 {self.significant}회 이 방향으로 p < {LEVEL}"
        )

    def short_evidence(self) -> str:
        """Return the p-value of a single run, or the number of significant runs, for a table."""
        if not self.p:
            return ""
        if self.runs == 1:
            return f"{self.p[0]:.4f}"
        return f"{self.significant} of {self.runs}"


def verdict(comparison: Comparison, system: System, score: str) -> Verdict | None:
    """Compare a system with the baseline; None for the baseline itself, and if either of them lacks
    the score.
    """
    systems = {other.name: other for other in comparison.systems}
    baseline = systems.get(comparison.baseline)
    system_score = system.score(score)
    baseline_score = baseline.score(score) if baseline else None
    if system.name == comparison.baseline:
        return None
    if system_score is None or baseline_score is None:
        return None

    difference = system_score.mean - baseline_score.mean
    results = {run.name: run for run in comparison.runs}
    p_values = []
    significant = 0
    for name in system.runs:
        run_score = results[name].score(score)
        if run_score is None or run_score.p is None:
            continue
        p_values.append(run_score.p)
        run_difference = difference
        if run_score.against in results:
            other_score = results[run_score.against].score(score)
            if other_score is not None:
                run_difference = run_score.value - other_score.value
        significant += run_score.p < LEVEL and run_difference * difference > 0
    runs = len(system.runs)
    return Verdict(system.name, difference, tuple(p_values), runs, significant)


def judge_others(
    comparison: Comparison, score: str, named: Collection[str]
) -> dict[str, list[Verdict]]:
    """Group the systems that are not in `named`: "better" or "worse" than the baseline, or "chance"
    if their difference is not significant.
    """
    groups: dict[str, list[Verdict]] = {"better": [], "worse": [], "chance": []}
    for system in comparison.systems:
        decision = None if system.name in named else verdict(comparison, system, score)
        if decision is None or not decision.p:
            continue
        if not decision.is_certain:
            groups["chance"].append(decision)
        elif (decision.difference > 0) is (score not in LOWER_IS_BETTER):
            groups["better"].append(decision)
        else:
            groups["worse"].append(decision)
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


def cost_ratio(
    comparison: Comparison, first: str, second: str, field: str
) -> float | None:
    """Return a cost of the first system divided by that of the second; None if it is not known."""
    first_mean = _mean_cost(comparison, first, field)
    second_mean = _mean_cost(comparison, second, field)
    if first_mean is None or not second_mean:
        return None
    return first_mean / second_mean


def _mean_cost(comparison: Comparison, system: str, field: str) -> float | None:
    """Return the mean of a cost over the runs of a system whose cost is known."""
    values = list[float]()
    for run in comparison.runs:
        if run.system == system and run.cost is not None:
            value = getattr(run.cost, field)
            if value is not None:
                values.append(float(value))
    return sum(values) / len(values) if values else None
