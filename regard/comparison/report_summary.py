"""The decisions of a comparison: which system is better, by how much, where, and at what cost.

A system is called better only if each of its runs scores higher than the run it is tested against,
with p < 0.05. The sentences are in the template `summary.html`; they say nothing that the data do
not hold.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from regard.common.bilingual import Text
from regard.comparison.report_numbers import probability
from regard.comparison.result import Breakdown, Bucket, Comparison, SeedScore, System

LEVEL = 0.05
"""Largest p-value of a difference that is called one."""
LOWER_IS_BETTER = ("TER",)


def main_score(comparison: Comparison) -> str:
    """Return the name of the score that decides: BLEU or CIDEr-D, or else the first there is."""
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
    """Return the systems that have a score, with its mean, the best first."""
    means = [
        (mean, system)
        for system in comparison.systems
        if (mean := system.score(score)) is not None
    ]
    return sorted(
        means, key=lambda pair: pair[0].mean, reverse=score not in LOWER_IS_BETTER
    )


@dataclass(frozen=True)
class Verdict:
    """Difference of a system from the baseline, with the p-values of its runs, and whether it is
    more than chance.
    """

    system: str
    difference: float  # mean of the system minus that of the baseline
    p: tuple[float, ...]
    runs: int
    significant: int  # runs that differ with p < 0.05, in the direction of the means

    @property
    def is_certain(self) -> bool:
        """Return whether every run differs."""
        return self.significant == self.runs > 0

    def p_text(self) -> str:
        """Return the p-values as text: one, or the smallest and the largest."""
        low = probability(min(self.p))
        high = probability(max(self.p))
        sign = "" if low.startswith("<") else "= "
        return (
            f"p {sign}{low}"
            if low == high
            else f"p {low}–{high}".replace("< ", "<\u2009")
        )

    def evidence(self) -> Text:
        """Return the p-value of one run, or how many of several differ in the direction of the
        means.
        """
        if self.runs == 1 or not self.p:
            return (
                Text(self.p_text(), self.p_text())
                if self.p
                else Text("no p-value", "p값 없음")
            )
        english = f"p < {LEVEL} this way in {self.significant} of {self.runs} runs"
        return Text(
            english, f"{self.runs}회 중 {self.significant}회 이 방향으로 p < {LEVEL}"
        )

    def short_evidence(self) -> str:
        """Return the p-value of one run, or how many of several differ in the direction of the
        means, for a table.
        """
        if not self.p:
            return ""
        return (
            f"{self.p[0]:.4f}"
            if self.runs == 1
            else f"{self.significant} of {self.runs}"
        )


def verdict(comparison: Comparison, system: System, score: str) -> Verdict | None:
    """Compare a system with the baseline; None for the baseline itself, and for systems without the
    score.
    """
    baseline = {other.name: other for other in comparison.systems}.get(
        comparison.baseline
    )
    own = system.score(score)
    base = baseline.score(score) if baseline else None
    if system.name == comparison.baseline or own is None or base is None:
        return None
    difference = own.mean - base.mean
    results = {run.name: run for run in comparison.runs}
    p = []
    significant = 0
    for name in system.runs:
        ours = results[name].score(score)
        if ours is None or ours.p is None:
            continue
        p.append(ours.p)
        theirs = results[ours.against].score(score) if ours.against in results else None
        gained = difference if theirs is None else ours.value - theirs.value
        significant += ours.p < LEVEL and gained * difference > 0
    return Verdict(system.name, difference, tuple(p), len(system.runs), significant)


def judge_others(
    comparison: Comparison, score: str, named: Collection[str]
) -> dict[str, list[Verdict]]:
    """Group the other systems: better or worse than the baseline, and those whose difference may be
    chance.
    """
    groups: dict[str, list[Verdict]] = {"better": [], "worse": [], "chance": []}
    for system in comparison.systems:
        decision = None if system.name in named else verdict(comparison, system, score)
        if decision is not None and decision.p:
            is_better = (decision.difference > 0) is (score not in LOWER_IS_BETTER)
            groups[
                "chance"
                if not decision.is_certain
                else "better"
                if is_better
                else "worse"
            ].append(decision)
    return groups


def length_gaps(
    breakdown: Breakdown, first: str, second: str
) -> list[tuple[Bucket, Bucket, list[float]]]:
    """Return the lengths that both systems, one of them the baseline, have, in order of the lead of
    the first.
    """
    theirs = {bucket.label: bucket for bucket in breakdown.systems.get(second, ())}
    gaps = []
    for ours in breakdown.systems.get(first, ()):
        other = theirs.get(ours.label)
        if other is not None and (ours.lead or other.lead):
            value, *ends = ours.lead or (-gap for gap in other.lead or ())
            gaps.append((ours, other, [value, *sorted(ends)]))
    return sorted(gaps, key=lambda gap: gap[2][0])


def cost_ratio(
    comparison: Comparison, first: str, second: str, field: str
) -> float | None:
    """Return a cost of the first system divided by that of the second: means over the runs whose
    cost is known.
    """
    means = []
    for system in (first, second):
        costs = [
            run.cost
            for run in comparison.runs
            if run.system == system and run.cost is not None
        ]
        values = [
            float(value)
            for cost in costs
            if (value := getattr(cost, field)) is not None
        ]
        means.append(sum(values) / len(values) if values else None)
    ours, theirs = means
    return ours / theirs if ours is not None and theirs else None
