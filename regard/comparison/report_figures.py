"""Figures of the report as inline SVG: quality by buckets, learning curves, reliability, quality against cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape

from regard.comparison.report_markup import Both, both, plain
from regard.comparison.report_summary import main_score
from regard.comparison.result import Breakdown, Comparison, Point, RunResult
from regard.visualisation import Chart, Panel, Series, draw_svg
from regard.visualisation.charts import layout_chart
from regard.visualisation.colours import SERIES
from regard.visualisation.fonts import elide
from regard.visualisation.text import clean

NAME_SIZE, NAME_WIDTH = 12.0, 150.0  # text size and largest width of a system's name in figures
CURVES = {"loss": "validation loss, nats per token", "chrf": "chrF", "bleu": "BLEU", "cider": "CIDEr-D"}
IS_DRAWN = ("length", "frequency")
"""Breakdowns that have a figure; the others have two buckets, and a table says it all."""
COSTS = (
    ("tokens_per_second", "target tokens per second when decoding", 1.0),
    ("operations", "million operations per target token", 1e-6),
    ("training_seconds", "minutes of training", 1 / 60),
    ("latency", "milliseconds for one sentence or image", 1000.0),
)


def _drawn(comparison: Comparison) -> dict[str, int]:
    """Return the systems that figures show, with the number of their colour and marker."""
    return {system.name: number for number, system in enumerate(comparison.systems[:SERIES])}


def _label(name: str) -> str:
    return elide(plain(name), NAME_SIZE, NAME_WIDTH)


def _figure(comparison: Comparison, chart: Chart, title: str, caption: Both) -> str:
    """Return a figure with its caption, and with a note if it does not show every system."""
    drawing = replace(layout_chart(chart), title=clean(title))
    left_out = comparison.systems[SERIES:]
    note = ""
    if left_out:
        names = ", ".join(plain(system.name) for system in left_out)
        note = " " + both(
            (
                f"The figure shows the first {SERIES} systems; the tables also have {names}.",
                f"그림에는 처음 {SERIES}개 시스템만 있고, 표에는 {names}도 있습니다.",
            )
        )
    svg = draw_svg(drawing, styled=False)
    label = f'aria-label="{escape(clean(title))}"'
    return (
        f'<figure><div class="scroll" tabindex="0" role="region" {label}>{svg}</div>'
        f"<figcaption>{both(caption)}{note}</figcaption></figure>\n"
    )


def breakdown_chart(comparison: Comparison, breakdown: Breakdown, title: str = "") -> Chart | None:
    """Make the chart of a score by bucket, all systems side by side with intervals; None if none can be shown."""
    buckets = bucket_order(breakdown)
    places = {label: number for number, label in enumerate(buckets)}
    series = []
    for name, paint in _drawn(comparison).items():
        parts = [part for part in breakdown.systems.get(name, ()) if _finite(part.value, part.low, part.high)]
        parts.sort(key=lambda part: places[part.label])
        if parts:
            points = tuple((float(places[part.label]), part.value) for part in parts)
            band = tuple((part.low, part.high) for part in parts)
            series.append(Series(_label(name), points, band, paint=paint))
    if not series:
        return None
    panel = Panel(
        plain(breakdown.score), plain(breakdown.unit), tuple(series), tuple(plain(label) for label in buckets)
    )
    return Chart(title, (panel,))


def draw_breakdown(comparison: Comparison, breakdown: Breakdown, caption: Both) -> str:
    """Draw a score by bucket; nothing if no system can be shown."""
    chart = breakdown_chart(comparison, breakdown)
    return "" if chart is None else _figure(comparison, chart, breakdown_title(breakdown), caption)


def breakdown_title(breakdown: Breakdown) -> str:
    """Return the title of the figure of a breakdown."""
    return f"{breakdown.score} by {breakdown.unit}"


def bucket_order(breakdown: Breakdown) -> list[str]:
    """Return the labels of all buckets: by their first value, or the two kinds of words and sentences as they come."""
    buckets = {bucket.label: bucket.first for parts in breakdown.systems.values() for bucket in parts}
    return sorted(buckets, key=lambda label: buckets[label]) if breakdown.key in IS_DRAWN else list(buckets)


def _finite(*values: float) -> bool:
    return all(map(math.isfinite, values))


def draw_curves(comparison: Comparison, caption: Both) -> str:
    """Draw every validation score over updates: a line for each run, a colour for each system."""
    names = list(dict.fromkeys(name for run in comparison.runs for point in run.curve for name in point.scores))
    panels = []
    for name in names:
        series = _run_lines(comparison, lambda point, name=name: point.scores.get(name))  # type: ignore[misc]
        if series:
            panels.append(Panel(CURVES.get(name, plain(name)), "updates", tuple(series)))
    if not panels:
        return ""
    return _figure(comparison, Chart("", tuple(panels), columns=2), "Learning curves", caption)


def draw_entropy(comparison: Comparison, caption: Both) -> str:
    """Draw the entropy of the attention to the source over updates."""
    series = _run_lines(comparison, lambda point: point.entropy)
    if not series:
        return ""
    panel = Panel("mean entropy, nats", "updates", tuple(series))
    return _figure(comparison, Chart("", (panel,)), "Attention entropy", caption)


def _run_lines(comparison: Comparison, value_of: Callable[[Point], float | None]) -> list[Series]:
    drawn, series = _drawn(comparison), []
    for run in comparison.runs:
        values = [(float(point.update), value) for point in run.curve if (value := value_of(point)) is not None]
        points = tuple(point for point in values if _finite(*point))
        if points and run.system in drawn:
            series.append(Series(_label(run.system), points, paint=drawn[run.system]))
    return series


def draw_reliability(comparison: Comparison, caption: Both) -> str:
    """Draw the probability of predictions against the share of them that is right."""
    drawn, series = _drawn(comparison), []
    for run in comparison.runs:
        bins = run.calibration.bins if run.calibration else ()
        points = tuple(sorted((part.probability, part.right) for part in bins if part.tokens))
        if points and run.system in drawn:
            series.append(Series(_label(run.system), points, paint=drawn[run.system]))
    if not series:
        return ""
    panel = Panel("share that is right", "probability", tuple(series), guide=((0.0, 0.0), (1.0, 1.0)))
    return _figure(comparison, Chart("", (panel,)), "Reliability diagram", caption)


def draw_costs(comparison: Comparison, caption: Both) -> str:
    """Draw the main score against the first two costs in which systems differ: a marker for each run."""
    score = main_score(comparison)
    panels = [panel for cost in COSTS if (panel := _cost_panel(comparison, score, *cost)) is not None][:2]
    if not panels:
        return ""
    return _figure(comparison, Chart("", tuple(panels), columns=2), f"{score} against cost", caption)


def _cost_panel(comparison: Comparison, score: str, field: str, unit: str, factor: float) -> Panel | None:
    drawn, series = _drawn(comparison), []
    for run in comparison.runs:
        point = _cost_point(run, score, field, factor)
        if point is not None and run.system in drawn:
            series.append(Series(_label(run.system), (point,), paint=drawn[run.system]))
    enough = len({line.paint for line in series}) > 1 and _differ([line.points[0][0] for line in series])
    return Panel(score, unit, tuple(series)) if enough else None


def _differ(values: Sequence[float]) -> bool:
    return max(values) - min(values) > 0.01 * abs(max(values))


def _cost_point(run: RunResult, score: str, field: str, factor: float) -> tuple[float, float] | None:
    value, cost = run.score(score), getattr(run.cost, field) if run.cost else None
    if value is None or cost is None or not _finite(value.value, float(cost)):
        return None
    return float(cost) * factor, value.value
