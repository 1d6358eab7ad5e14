"""Tables of the report, with every number: scores, breakdowns, costs, curves, calibration and alignments."""

from __future__ import annotations

from collections.abc import Mapping

from regard.comparison.report_figures import bucket_order
from regard.comparison.report_markup import (
    NOTHING,
    Both,
    between,
    both,
    duration,
    label,
    label_texts,
    millions,
    number,
    probability,
    quote,
    signature,
    signed,
    table,
)
from regard.comparison.report_summary import LOWER_IS_BETTER, mean_score, score_names, verdict
from regard.comparison.result import Breakdown, Comparison, Cost, RunResult, Score, System

SYSTEM, RUN = ("System", "시스템"), ("Run", "실행")
INTERVAL: Both = ("95 % interval", "95 % 구간")
CURVES: Mapping[str, Both] = {
    "loss": ("loss", "손실"),
    "chrf": ("chrF",) * 2,
    "bleu": ("BLEU",) * 2,
    "cider": ("CIDEr-D",) * 2,
}


def system_name(comparison: Comparison, name: str) -> str:
    """Return the name of a system, with a mark if it is the baseline."""
    mark = " " + both(("(baseline)", "(기준)"), "small") if name == comparison.baseline else ""
    return quote(name) + mark


def system_table(comparison: Comparison) -> str:
    """Return the means of all scores over the seeds of each system, with intervals and differences."""
    names = score_names(comparison)
    head = [both(SYSTEM), both(("Runs", "실행 수")), *(_score_head(name) for name in names)]
    best = {name: _best(comparison, name) for name in names}
    rows = [
        [
            system_name(comparison, system.name),
            str(len(system.runs)),
            *(_score_cell(comparison, system, name, best[name]) for name in names),
        ]
        for system in comparison.systems
    ]
    caption = ("Scores: mean over the runs of each system", "점수: 시스템별 실행 평균")
    return table(caption, head, rows)


def _score_head(name: str) -> str:
    is_low = name in LOWER_IS_BETTER
    hint = ("lower is better", "낮을수록 좋음") if is_low else ("higher is better", "높을수록 좋음")
    arrow = "↓" if is_low else "↑"
    return f'{quote(name)} <span aria-hidden="true">{arrow}</span><span class="spoken"> {both(hint)}</span>'


def _best(comparison: Comparison, name: str) -> float | None:
    """Return the best mean of a score, if there are several to choose from."""
    means = [mean.mean for system in comparison.systems if (mean := mean_score(system, name)) is not None]
    choose = min if name in LOWER_IS_BETTER else max
    return choose(means) if len(means) > 1 else None


def _score_cell(comparison: Comparison, system: System, name: str, best: float | None) -> str:
    mean = mean_score(system, name)
    if mean is None:
        return NOTHING
    value = number(mean.mean)
    if best is not None and mean.mean == best:
        end = ("lowest", "최저") if name in LOWER_IS_BETTER else ("highest", "최고")
        value = f'<strong>{value}</strong> <span class="spoken">{both(end)}</span>'
    lines = [value]
    if interval := between(mean.low, mean.high):
        lines.append(f"<small>{interval}</small>")
    decision = verdict(comparison, system, name)
    if decision:
        evidence = f"<br>{both(decision.evidence())}" if decision.p else ""
        lines.append(f"<small>{signed(decision.difference)}{evidence}</small>")
    return "<br>".join(lines)


def score_table(comparison: Comparison) -> str:
    """Return every score of every run with its interval, p-value and signature."""
    names: list[Both] = [RUN, ("Score", "점수"), ("Value", "값"), INTERVAL]
    names += [("Mean ± half interval", "평균 ± 구간 절반"), ("p", "p"), ("against", "비교 대상"), ("Signature", "서명")]
    rows = [_score_row(run, score) for run in comparison.runs for score in run.scores]
    caption = ("Scores of each run", "실행별 점수")
    return table(caption, [both(name) for name in names], rows, (1, 6, 7))


def _score_row(run: RunResult, score: Score) -> list[str]:
    resampled = NOTHING if score.mean is None else f"{number(score.mean)} ± {number(score.ci)}"
    return [
        quote(run.name),
        quote(score.name),
        number(score.value),
        between(score.low, score.high) or NOTHING,
        resampled,
        NOTHING if score.p is None else probability(score.p),
        quote(score.against) if score.against else NOTHING,
        signature(score.signature),
    ]


def run_table(comparison: Comparison) -> str:
    """Return where each run comes from, and whether it has ended."""
    names: list[Both] = [RUN, SYSTEM, ("Seed", "시드"), ("From", "출처"), ("Status", "상태")]
    rows = [
        [
            quote(run.name),
            quote(run.system),
            NOTHING if run.seed is None else str(run.seed),
            quote(run.origin),
            quote(run.status) if run.status else NOTHING,
        ]
        for run in comparison.runs
    ]
    return table(("Runs", "실행"), [both(name) for name in names], rows, (1, 3, 4))


def breakdown_table(comparison: Comparison, breakdown: Breakdown) -> str:
    """Return a score by bucket: a row for each bucket, a column for each system."""
    score, unit = label_texts(breakdown.score), label_texts(breakdown.unit)
    systems = [system.name for system in comparison.systems if breakdown.systems.get(system.name)]
    head = [label(breakdown.unit), both(("Number", "개수")), *(system_name(comparison, system) for system in systems)]
    cells = {(system, part.label): part for system in systems for part in breakdown.systems[system]}
    rows = []
    for name in bucket_order(breakdown):
        parts = [cells.get((system, name)) for system in systems]
        items = next((part.items for part in parts if part), 0)
        values = [
            f"{number(part.value)} <small>{between(part.low, part.high)}</small>" if part else NOTHING for part in parts
        ]
        rows.append([label(name), f"{items:,}", *values])
    return table((f"{score[0]}, 95 % intervals, by {unit[0]}", f"{unit[1]}에 따른 {score[1]}와 95 % 구간"), head, rows)


def cost_table(comparison: Comparison) -> str:
    """Return what is known of the cost of each run; nothing if it is known of none."""
    runs = [run for run in comparison.runs if run.cost is not None]
    if not runs:
        return ""
    names: list[Both] = [
        RUN,
        ("Weights", "가중치"),
        ("Operations per token", "토큰당 연산"),
        ("Updates", "업데이트"),
        ("Training tokens", "학습 토큰"),
        ("Training time", "학습 시간"),
        ("Tokens per second", "초당 토큰"),
        ("Latency, ms", "지연, ms"),
        ("Memory, MiB", "메모리, MiB"),
        ("Decoding", "디코딩"),
    ]
    rows = [[quote(run.name), *_cost_cells(run.cost)] for run in runs if run.cost]
    caption = ("Cost of each run", "실행별 비용")
    return table(caption, [both(name) for name in names], rows, (9,))


def _cost_cells(cost: Cost) -> list[str]:
    return [
        f"{cost.weights:,}",
        millions(cost.operations),
        number(cost.updates, 0),
        number(cost.training_tokens, 0),
        duration(cost.training_seconds),
        number(cost.tokens_per_second, 1),
        number(None if cost.latency is None else 1000 * cost.latency, 1),
        number(cost.memory, 0),
        quote(cost.decoding) if cost.decoding else NOTHING,
    ]


def curve_table(comparison: Comparison) -> str:
    """Return every validation of every run."""
    names = list(dict.fromkeys(name for run in comparison.runs for point in run.curve for name in point.scores))
    head: list[Both] = [RUN, ("Update", "업데이트"), ("Tokens", "토큰"), ("Time", "시간")]
    heads = [both(text) for text in head]
    heads += [both(CURVES[name]) if name in CURVES else quote(name) for name in names]
    rows = [
        [
            quote(run.name),
            f"{point.update:,}",
            f"{point.tokens:,}",
            duration(point.seconds),
            *(number(point.scores.get(name), 3) for name in names),
            number(point.entropy, 3),
        ]
        for run in comparison.runs
        for point in run.curve
    ]
    return table(("Validations", "검증"), [*heads, both(("Entropy, nats", "엔트로피, nat"))], rows)


def calibration_table(comparison: Comparison) -> str:
    """Return the expected calibration error of each run; nothing if none is known."""
    head: list[Both] = [RUN, ("Expected calibration error", "기대 보정 오차"), ("Predictions", "예측 수")]
    rows = [
        [quote(run.name), number(run.calibration.error, 4), f"{sum(part.tokens for part in run.calibration.bins):,}"]
        for run in comparison.runs
        if run.calibration
    ]
    caption = ("Calibration of each run", "실행별 보정")
    return table(caption, [both(name) for name in head], rows) if rows else ""


def bins_table(comparison: Comparison) -> str:
    """Return every bin of the reliability diagram."""
    head: list[Both] = [RUN, ("Probability", "확률"), ("Predictions", "예측 수")]
    head += [("Mean probability", "평균 확률"), ("Share right", "정답 비율")]
    rows = [
        [
            quote(run.name),
            f"{number(part.low)}–{number(part.high)}",
            f"{part.tokens:,}",
            number(part.probability, 3),
            number(part.right, 3) if part.tokens else NOTHING,
        ]
        for run in comparison.runs
        if run.calibration
        for part in run.calibration.bins
    ]
    return table(("Reliability by bin", "구간별 신뢰도"), [both(name) for name in head], rows)


def alignment_table(comparison: Comparison) -> str:
    """Return the alignment error rates; nothing if none is known."""
    head: list[Both] = [RUN, ("AER", "AER"), ("Precision", "정밀도"), ("Recall", "재현율"), ("Attention", "어텐션")]
    rows = [
        [
            quote(run.name),
            *(number(value, 3) for value in (links.aer, links.precision, links.recall)),
            quote(links.choice),
        ]
        for run in comparison.runs
        if (links := run.alignment)
    ]
    caption = ("Word alignments from attention (AER: lower is better)", "어텐션에서 얻은 단어 정렬(AER: 낮을수록 좋음)")
    return table(caption, [both(name) for name in head], rows, (4,)) if rows else ""
