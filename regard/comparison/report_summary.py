"""The summary of a comparison in plain sentences, in English and Korean; it says nothing that the data do not hold.

A system is called better only if each of its runs scores higher than the run it is tested against, with p < 0.05.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.comparison.report_numbers import between, number, plain, probability, signed
from regard.comparison.result import Bucket, Comparison, Cost, SeedScore, System

Both = tuple[str, str]
"""A text in English and in Korean."""
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
    return list(dict.fromkeys(score.name for system in comparison.systems for score in system.scores))


def mean_score(system: System, name: str) -> SeedScore | None:
    """Return the mean of a score over the seeds of a system."""
    return next((score for score in system.scores if score.name == name), None)


def best_mean(comparison: Comparison, name: str) -> float | None:
    """Return the best mean of a score, if there are several to choose from."""
    means = [mean.mean for system in comparison.systems if (mean := mean_score(system, name)) is not None]
    choose = min if name in LOWER_IS_BETTER else max
    return choose(means) if len(means) > 1 else None


@dataclass(frozen=True)
class Verdict:
    """Difference of a system from the baseline, with the p-values of its runs, and whether it is more than chance."""

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
        low, high = probability(min(self.p)), probability(max(self.p))
        sign = "" if low.startswith("<") else "= "
        return f"p {sign}{low}" if low == high else f"p {low}–{high}".replace("< ", "<\u2009")

    def evidence(self) -> Both:
        """Return the p-value of one run, or how many of several differ in the direction of the means."""
        if self.runs == 1 or not self.p:
            return (self.p_text(),) * 2 if self.p else ("no p-value", "p값 없음")
        english = f"p < {LEVEL} this way in {self.significant} of {self.runs} runs"
        return english, f"{self.runs}회 중 {self.significant}회 이 방향으로 p < {LEVEL}"


def verdict(comparison: Comparison, system: System, score: str) -> Verdict | None:
    """Compare a system with the baseline; None for the baseline itself, and for systems without the score."""
    baseline = {other.name: other for other in comparison.systems}.get(comparison.baseline)
    own, base = mean_score(system, score), mean_score(baseline, score) if baseline else None
    if system.name == comparison.baseline or own is None or base is None:
        return None
    difference = own.mean - base.mean
    results = {run.name: run for run in comparison.runs}
    p, significant = [], 0
    for name in system.runs:
        ours = results[name].score(score)
        if ours is None or ours.p is None:
            continue
        p.append(ours.p)
        theirs = results[ours.against].score(score) if ours.against in results else None
        gained = difference if theirs is None else ours.value - theirs.value
        significant += ours.p < LEVEL and gained * difference > 0
    return Verdict(system.name, difference, tuple(p), len(system.runs), significant)


def summarise(comparison: Comparison) -> list[Both]:
    """Return the sentences of the summary."""
    score = main_score(comparison)
    ranked = sorted(
        ((mean, system) for system in comparison.systems if (mean := mean_score(system, score)) is not None),
        key=lambda pair: pair[0].mean,
        reverse=score not in LOWER_IS_BETTER,
    )
    if not ranked:
        return [("There are no scores.", "점수가 없습니다.")]
    (mean, best), others = ranked[0], [system for _, system in ranked[1:]]
    if not others:
        return [_alone(best.name, score, mean), *_unfinished(comparison)]
    sentences = [_leader(best.name, score, mean, len(ranked))]
    pair = best if best.name != comparison.baseline else others[0]
    decision = verdict(comparison, pair, score)
    if decision:
        sentences.append(_decision(decision, score, comparison.baseline, best.name))
        sentences += _others(comparison, score, {best.name, pair.name, comparison.baseline})
        names = (best.name, comparison.baseline if best.name != comparison.baseline else pair.name)
        sentences += [*_by_length(comparison, *names), *_costs(comparison, *names)]
    return [*sentences, *_unfinished(comparison)]


def _mean_text(mean: SeedScore) -> Both:
    interval = between(mean.low, mean.high)
    english = [f"mean of {mean.seeds} runs"] if mean.seeds > 1 else []
    korean = [f"{mean.seeds}회 실행의 평균"] if mean.seeds > 1 else []
    if interval:
        english.append(f"95 % interval {interval}")
        korean.append(f"95 % 구간 {interval}")
    return f" ({', '.join(english)})" if english else "", f"({', '.join(korean)})" if korean else ""


def _alone(name: str, score: str, mean: SeedScore) -> Both:
    english, korean = _mean_text(mean)
    return (
        f"{plain(name)} has a {score} of {number(mean.mean)}{english}. No other system was compared with it.",
        f"{plain(name)}의 {score}는 {number(mean.mean)}입니다{korean}. 비교한 다른 시스템은 없습니다.",
    )


def _leader(name: str, score: str, mean: SeedScore, count: int) -> Both:
    (english, korean), end = _mean_text(mean), ("lowest", "낮은") if score in LOWER_IS_BETTER else ("highest", "높은")
    return (
        f"Of {count} systems, {plain(name)} has the {end[0]} {score}: {number(mean.mean)}{english}.",
        f"{count}개 시스템 가운데 {score}가 가장 {end[1]} 것은 {plain(name)}입니다: {number(mean.mean)}{korean}.",
    )


def _decision(decision: Verdict, score: str, baseline: str, best: str) -> Both:
    """Say how the best system compares with the baseline, or if that is the best, the baseline with the next one."""
    system, base = plain(decision.system), plain(baseline)
    is_ahead = decision.system == best
    first, second = (system, base) if is_ahead else (base, system)
    labels = ("", " (the baseline)") if is_ahead else (" (the baseline)", "")
    korean_labels = ("", "(기준)") if is_ahead else ("(기준)", "")
    size = number(abs(decision.difference))
    if not decision.p:
        return (
            f"It differs from {second}{labels[1]} by {size}; no p-value says whether that is more than chance.",
            f"{second}{korean_labels[1]}와(과)의 차이는 {size}이며, 우연 이상인지 알려 주는 p값은 없습니다.",
        )
    each = f" in each of {decision.runs} runs" if decision.runs > 1 else ""
    if decision.is_certain:
        each_korean = f", {decision.runs}회 실행 모두" if decision.runs > 1 else ""
        return (
            f"{first}{labels[0]} is better than {second}{labels[1]} by {size} {score} ({decision.p_text()}{each}).",
            f"{first}{korean_labels[0]}이(가) {second}{korean_labels[1]}보다 "
            f"{score} {size}만큼 더 좋습니다({decision.p_text()}{each_korean}).",
        )
    why, why_korean = decision.evidence()
    return (
        f"The difference from {second}{labels[1]}, {size} {score}, may be chance ({why}).",
        f"{second}{korean_labels[1]}와(과)의 차이 {score} {size}는 우연일 수 있습니다({why_korean}).",
    )


def _others(comparison: Comparison, score: str, named: set[str]) -> Iterator[Both]:
    """Say of the other systems which are better or worse than the baseline, and of which it is not known."""
    groups: dict[str, list[Both]] = {"better": [], "worse": [], "chance": []}
    for system in comparison.systems:
        decision = None if system.name in named else verdict(comparison, system, score)
        if decision is None or not decision.p:
            continue
        is_better = (decision.difference > 0) is (score not in LOWER_IS_BETTER)
        kind = "chance" if not decision.is_certain else "better" if is_better else "worse"
        start = f"{plain(system.name)} ({signed(decision.difference)}, "
        english, korean = decision.evidence()
        groups[kind].append((f"{start}{english})", f"{start}{korean})"))
    words = {
        "better": ("Better than the baseline", "기준보다 더 좋은 시스템"),
        "worse": ("Worse than the baseline", "기준보다 나쁜 시스템"),
        "chance": ("No difference from the baseline that could not be chance", "기준과의 차이가 우연일 수 있는 시스템"),
    }
    for kind, parts in groups.items():
        if parts:
            english, korean = (", ".join(names) for names in zip(*parts, strict=True))
            yield f"{words[kind][0]}: {english}.", f"{words[kind][1]}: {korean}."


def _by_length(comparison: Comparison, first: str, second: str) -> Iterator[Both]:
    """Say at which length the first system is furthest ahead of the second, and at which least."""
    lengths = next((part for part in comparison.breakdowns if part.key == "length"), None)
    if lengths is None:
        return
    theirs = {bucket.label: bucket for bucket in lengths.systems.get(second, ())}
    pairs = [(bucket, theirs[bucket.label]) for bucket in lengths.systems.get(first, ()) if bucket.label in theirs]
    if len(pairs) < 2:
        return
    pairs.sort(key=lambda pair: pair[0].value - pair[1].value)
    least, most = _gap(*pairs[0]), _gap(*pairs[-1])
    unit = "원문 단어 수" if lengths.unit == "source words" else "참조 단어 수"
    yield (
        f"{lengths.score} of {plain(first)} minus that of {plain(second)}, by {plain(lengths.unit)}: "
        f"most at {most[0]}, least at {least[0]}. If intervals overlap, the difference may be chance.",
        f"{unit}에 따른 {plain(first)}과(와) {plain(second)}의 {lengths.score} 차이: 최대 {most[1]}, "
        f"최소 {least[1]}. 구간이 겹치면 우연일 수 있습니다.",
    )


def _gap(bucket: Bucket, other: Bucket) -> Both:
    """Return the difference of two systems in a bucket, with both values."""
    is_apart = bucket.low > other.high or other.low > bucket.high
    difference = f"{plain(bucket.label)}: {signed(bucket.value - other.value)}"
    values = f"{number(bucket.value)} − {number(other.value)}"
    english = "95 % intervals apart" if is_apart else "95 % intervals overlap"
    korean = "95 % 구간이 떨어져 있음" if is_apart else "95 % 구간이 겹침"
    return f"{difference} ({values}; {english})", f"{difference} ({values}; {korean})"


def mean_cost(comparison: Comparison, system: str, field: str) -> float | None:
    """Return a cost of a system: the mean over its runs of which it is known."""
    costs = [run.cost for run in comparison.runs if run.system == system and run.cost is not None]
    values = [value for cost in costs if (value := _field(cost, field)) is not None]
    return sum(values) / len(values) if values else None


def _field(cost: Cost, field: str) -> float | None:
    value = getattr(cost, field)
    return None if value is None else float(value)


def _costs(comparison: Comparison, first: str, second: str) -> Iterator[Both]:
    """Compare what both systems cost, as far as it is known of both."""
    words: Sequence[tuple[str, str, str]] = (
        ("weights", "weights", "가중치"),
        ("operations", "operations per target token", "목표 토큰당 연산"),
        ("training_seconds", "training time", "학습 시간"),
        ("tokens_per_second", "tokens per second when decoding", "디코딩 초당 토큰"),
    )
    english, korean = [], []
    for field, name, korean_name in words:
        ours, theirs = mean_cost(comparison, first, field), mean_cost(comparison, second, field)
        if ours is not None and theirs:
            english.append(f"{ours / theirs:.2f} × the {name}")
            korean.append(f"{korean_name} {ours / theirs:.2f}배")
    if english:
        yield (
            f"Cost of {plain(first)} relative to {plain(second)}: {', '.join(english)}.",
            f"{plain(second)} 대비 {plain(first)}의 비용: {', '.join(korean)}.",
        )


def _unfinished(comparison: Comparison) -> Iterator[Both]:
    names = [plain(run.name) for run in comparison.runs if run.status]
    if names:
        yield (
            f"Training of these runs has not ended, and their scores may still change: {', '.join(names)}.",
            f"다음 실행은 학습이 끝나지 않아 점수가 바뀔 수 있습니다: {', '.join(names)}.",
        )
