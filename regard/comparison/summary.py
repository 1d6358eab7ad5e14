"""The summary of a comparison in sentences, which the report, the command and the JSON file share.

It says nothing that the data do not hold; `summary.toml` has the sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from regard.common.bilingual import Text, join_texts, read_texts
from regard.comparison.decisions import (
    FALLING,
    LOWER_IS_BETTER,
    Verdict,
    beyond_training,
    costs_of,
    judge_others,
    length_gaps,
    main_score,
    rank,
    ratio,
    speed_ratio,
    still_falls,
    timing_engine,
    unusable,
    verdict,
)
from regard.comparison.report_numbers import between, number, plain, signed
from regard.comparison.result import MIN_ITEMS, Bucket, Comparison, Cost
from regard.evaluation.training_report import NO_USE, USABLE

LABELS = {
    "source words": "원문 단어 수",
    "reference words": "참조 단어 수",
    "source sentences": "원문 문장",
    "occurrences in the training data": "학습 데이터에 나온 횟수",
    "every word seen in training": "모든 단어가 학습에 나옴",
    "some word never seen": "학습에 없던 단어가 있음",
    "seen in training": "학습에 나옴",
    "never seen": "학습에 없음",
    "never": "없음",
    "word F1": "단어 F1",
    "word recall": "단어 재현율",
    "longer than any in training": "학습의 어떤 원문보다 긴 원문",
    "script never seen in training": "학습에 없던 문자",
    "repetition": "반복",
    "lost placeholder, number or the like": "잃어버린 자리표시자나 숫자",
    "other": "기타",
}
"""Korean labels of breakdowns and warnings."""
TEXTS = read_texts(
    "regard.comparison",
    "summary.toml",
    ("leader", "quality", "decision", "others", "ranges", "cost"),
)


def summarise(comparison: Comparison) -> tuple[Text, ...]:
    """Return the sentences of the summary."""
    score = main_score(comparison)
    ranked = rank(comparison, score)
    if not ranked:
        return (TEXTS["leader.none"],)
    best = ranked[0][1]
    is_ahead = best.name != comparison.baseline
    pair = best if is_ahead else ranked[:2][-1][1]
    rest = [_leader(comparison, score), *_quality(comparison)]
    decision = verdict(comparison, pair, score)
    if decision is None:
        return tuple(rest)
    names = [pair.name, comparison.baseline]
    first, second = names if is_ahead else reversed(names)
    sentences = [_decision(decision, score, first, second)]
    if decision.lead is not None and decision.lead.test == "paired bootstrap":
        sentences.append(TEXTS["decision.models"])
    sentences += rest
    sentences += _others(comparison, score, {*names, best.name})
    sentences += _ranges(comparison, pair.name, comparison.baseline)
    sentences += _costs(comparison, first, second)
    return tuple(sentences)


def _leader(comparison: Comparison, score: str) -> Text:
    """Name the system with the best score."""
    ranked = rank(comparison, score)
    mean, best = ranked[0]
    details = list[Text]()
    if mean.seeds > 1:
        details.append(TEXTS["leader.mean"].fill(count=mean.seeds))
    if mean.low != mean.high:
        ends = between(mean.low, mean.high)
        details.append(TEXTS["leader.interval"].fill(ends=ends))
    inside = Text("", "")
    if details:
        inside = TEXTS["leader.details"].fill(details=join_texts(details, ", "))
    kind = "alone" if len(ranked) == 1 else "of_several"
    end = "lowest" if score in LOWER_IS_BETTER else "highest"
    return TEXTS[f"leader.{kind}"].fill(
        count=len(ranked),
        name=plain(best.name),
        end=TEXTS[f"leader.{end}"],
        score=score,
        value=number(mean.mean),
        details=inside,
    )


def _quality(comparison: Comparison) -> Iterator[Text]:
    """Say which systems are at the floor, not trained to the end, or write doubtful outputs."""
    weak = [f"{plain(name)} ({number(chrf, 1)})" for name, chrf in unusable(comparison)]
    if weak:
        use = Text(NO_USE.capitalize(), "")
        names = ", ".join(weak)
        yield TEXTS["quality.weak"].fill(use=use, least=USABLE, names=names)
    falling = list[Text]()
    for system in comparison.systems:
        runs = [comparison.run(name) for name in system.runs]
        values = {"name": plain(system.name), "all": len(runs)}
        count = sum(map(still_falls, runs))
        if count:
            falling.append(TEXTS["quality.of_runs"].fill(count=count, **values))
    if falling:
        merged = join_texts(falling, ", ")
        yield TEXTS["quality.falling"].fill(least=FALLING, names=merged)
    kinds = list(_warnings(comparison))
    if kinds:
        outputs = f"{len(comparison.test.sources):,}"
        yield TEXTS["quality.warned"].fill(count=outputs, kinds=join_texts(kinds, "; "))
    unfinished = ", ".join(plain(run.name) for run in comparison.runs if run.status)
    if unfinished:
        yield TEXTS["quality.unfinished"].fill(names=unfinished)


def _warnings(comparison: Comparison) -> Iterator[Text]:
    """Yield each kind of warning with its counts in the runs of each system."""
    counted = [run.warned for run in comparison.runs if run.warned is not None]
    for kind in dict.fromkeys(kind for warned in counted for kind in warned):
        names = []
        for system in comparison.systems:
            runs = [comparison.run(name).warned for name in system.runs]
            counts = [f"{run.get(kind, 0):,}" for run in runs if run is not None]
            if counts:
                names.append(f"{plain(system.name)} {', '.join(counts)}")
        text = Text(kind, LABELS.get(kind, kind))
        yield TEXTS["quality.kind"].fill(kind=text, names="; ".join(names))


def _decision(decision: Verdict, score: str, first: str, second: str) -> Text:
    """Say whether the first of two systems, one of which is the baseline, is better."""
    baseline = second if decision.system == first else first
    names = {
        name: TEXTS["decision.baseline"].fill(name=plain(name))
        if name == baseline
        else plain(name)
        for name in (first, second)
    }
    return TEXTS[f"decision.{decision.kind}"].fill(
        first=names[first],
        second=names[second],
        size=number(abs(decision.difference)),
        score=score,
        minus=f"{plain(decision.system)} − {plain(baseline)}",
        why=decision.evidence(),
    )


def _others(comparison: Comparison, score: str, named: set[str]) -> Iterator[Text]:
    """Say which of the other systems are better or worse than the baseline, or may not be."""
    for kind, decisions in judge_others(comparison, score, named).items():
        names = [
            TEXTS["others.one"].fill(
                name=plain(decision.system),
                size=signed(decision.difference),
                why=decision.evidence(),
            )
            for decision in decisions
        ]
        if names:
            yield TEXTS[f"others.{kind}"].fill(names=join_texts(names, ", "))


def _ranges(comparison: Comparison, first: str, second: str) -> Iterator[Text]:
    """Say at which lengths the first system leads most and least, of those with enough items."""
    kind = "images" if comparison.task == "captions" else "sentences"
    items = TEXTS[f"ranges.{kind}"]
    for lengths in comparison.breakdowns:
        gaps = length_gaps(lengths, first, second)
        if lengths.key != "length" or not gaps:
            continue
        yield TEXTS["ranges.looked_at"].fill(
            score=lengths.score,
            first=plain(first),
            second=plain(second),
            count=len(gaps),
            unit=Text(lengths.unit, LABELS[lengths.unit]),
            least=MIN_ITEMS,
            items=items,
        )
        beyond = beyond_training(comparison)
        if beyond:
            yield TEXTS["ranges.beyond"].fill(labels=plain(", ".join(beyond)))
        large = [gap for gap in gaps if not gap[0].is_small]
        if large:
            yield _ends_of_ranges(large, items)


def _ends_of_ranges(
    gaps: Sequence[tuple[Bucket, Bucket, list[float]]], items: Text
) -> Text:
    """Name the ranges with the largest and the smallest lead."""
    least, most = (
        TEXTS["ranges.one"].fill(
            label=plain(bucket.label),
            count=bucket.items,
            items=items,
            value=signed(lead),
            ends=between(low, high),
        )
        for bucket, _, (lead, low, high) in (gaps[0], gaps[-1])
    )
    kind = "only" if len(gaps) == 1 else "both"
    return TEXTS[f"ranges.{kind}"].fill(most=most, least=least, count=len(gaps))


def _costs(comparison: Comparison, first: str, second: str) -> Iterator[Text]:
    """Compare the costs of two systems; those in seconds only if they do not overlap."""
    costs = [costs_of(comparison, name) for name in (first, second)]
    if not all(costs):
        return
    parts = [
        TEXTS[f"cost.{field}"].fill(
            value=_mean(costs[0], field) / _mean(costs[1], field)
        )
        for field in ("weights", "operations")
        if _mean(costs[1], field)
    ]
    seconds = [
        [cost.training_seconds for cost in values if cost.training_seconds]
        for values in costs
    ]
    timed = [[cost for cost in values if cost.speeds] for values in costs]
    speeds = speed_ratio(timed[0][0], timed[1][0]) if all(timed) else None
    measured = {"training": ratio(*seconds), "decoding": speeds}
    parts += [
        TEXTS[f"cost.{name}"].fill(
            value=value.value,
            ends=between(value.low, value.high),
            engine=timing_engine(comparison),
        )
        for name, value in measured.items()
        if value is not None
    ]
    names = {"first": plain(first), "second": plain(second)}
    yield TEXTS["cost.relative"].fill(parts=join_texts(parts, ", "), **names)
    if all(timed):
        if speeds is None:
            yield TEXTS["cost.unclear"].fill(engine=timing_engine(comparison))
        yield TEXTS["cost.lengths"].fill(
            first_words=_timed_length(comparison, first),
            second_words=_timed_length(comparison, second),
            **names,
        )


def _mean(costs: Sequence[Cost], field: str) -> float:
    return fmean(getattr(cost, field) for cost in costs)


def _timed_length(comparison: Comparison, system: str) -> str:
    """Return the mean length of the outputs of the run of a system whose speed was measured."""
    return next(
        number(run.mean_length, 1)
        for run in comparison.runs
        if run.system == system and run.cost is not None and run.cost.speeds
    )
