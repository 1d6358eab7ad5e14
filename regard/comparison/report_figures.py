"""Figures of the report: quality by buckets, learning curves, reliability, quality against cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from regard.comparison.decisions import main_score
from regard.comparison.report_numbers import plain
from regard.comparison.result import Breakdown, Comparison, Point, RunResult
from regard.visualisation import Chart, Figure, Panel, Series
from regard.visualisation.charts import layout_chart
from regard.visualisation.colours import SERIES
from regard.visualisation.fonts import elide
from regard.visualisation.text import clean

NAME_SIZE = 12.0  # text size of a system's name
NAME_WIDTH = 150.0  # pixels of the widest name of a system
CURVE_TITLES = {
    "loss": "validation loss, nats per token",
    "chrf": "chrF",
    "bleu": "BLEU",
    "cider": "CIDEr-D",
}
IS_DRAWN = ("length", "frequency")
"""Breakdowns that have a figure; the others have only two buckets, for which a table suffices."""
COSTS = (
    ("tokens_per_second", "target tokens per second when decoding", 1.0),
    ("operations", "million operations per target token", 1e-6),
    ("training_seconds", "minutes of training", 1 / 60),
    ("latency", "milliseconds for one sentence or image", 1000.0),
)
Points = Iterable[tuple[float, float]]


def _label(name: str) -> str:
    return elide(plain(name), NAME_SIZE, NAME_WIDTH)


def _figure(panels: Sequence[Panel | None], title: str) -> Figure | None:
    """Lay out the panels that are not None, two in a row; return None if there are none."""
    drawn = tuple(panel for panel in panels if panel is not None)
    if not drawn:
        return None
    return replace(layout_chart(Chart("", drawn, columns=2)), title=clean(title))


def _run_panel(
    comparison: Comparison,
    points_of: Callable[[RunResult], Points],
    title: str,
    x_label: str,
    guide: tuple[tuple[float, float], ...] = (),
) -> Panel | None:
    """Make a panel with a line for each run, in the colour of its system; return None if no run has
    a point.
    """
    paints = {
        system.name: number for number, system in enumerate(comparison.systems[:SERIES])
    }
    lines = []
    for run in comparison.runs:
        points = tuple(
            point for point in points_of(run) if all(map(math.isfinite, point))
        )
        if points and run.system in paints:
            lines.append(Series(_label(run.system), points, paint=paints[run.system]))
    return Panel(title, x_label, tuple(lines), guide=guide) if lines else None


def breakdown_chart(
    comparison: Comparison, breakdown: Breakdown, title: str = ""
) -> Chart | None:
    """Make the chart of a score by bucket, with intervals and with the systems side by side; return
    None if there is nothing to draw.
    """
    if breakdown.key not in IS_DRAWN:
        return None
    buckets = bucket_order(breakdown)
    series = []
    for paint, system in enumerate(comparison.systems[:SERIES]):
        parts = [
            part
            for part in breakdown.systems.get(system.name, ())
            if all(map(math.isfinite, (part.value, part.low, part.high)))
        ]
        parts.sort(key=lambda part: buckets.index(part.label))
        if parts:
            points = tuple(
                (float(buckets.index(part.label)), part.value) for part in parts
            )
            band = tuple((part.low, part.high) for part in parts)
            series.append(Series(_label(system.name), points, band, paint=paint))
    if not series:
        return None
    panel = Panel(
        plain(breakdown.score),
        plain(breakdown.unit) + " (number)",
        tuple(series),
        tuple(_counted(breakdown, label) for label in buckets),
    )
    return Chart(title, (panel,))


def _counted(breakdown: Breakdown, label: str) -> str:
    """Return the label of a range with its number of items and its marks."""
    bucket = next(
        bucket
        for buckets in breakdown.systems.values()
        for bucket in buckets
        if bucket.label == label
    )
    return f"{plain(label)} ({bucket.items:,}{bucket.marks})"


def draw_breakdown(comparison: Comparison, breakdown: Breakdown) -> Figure | None:
    """Draw a score by bucket; return None if there is nothing to draw, or if a table suffices."""
    chart = breakdown_chart(comparison, breakdown)
    return None if chart is None else _figure(chart.panels, breakdown_title(breakdown))


def breakdown_title(breakdown: Breakdown) -> str:
    """Return the title of the figure of a breakdown."""
    return f"{breakdown.score} by {breakdown.unit}"


def bucket_order(breakdown: Breakdown) -> list[str]:
    """Return the labels of all buckets, ordered by the starts of their ranges; seen and unseen
    words keep their order.
    """
    starts = {
        bucket.label: bucket.first
        for buckets in breakdown.systems.values()
        for bucket in buckets
    }
    if breakdown.key not in IS_DRAWN:
        return list(starts)
    return sorted(starts, key=lambda label: starts[label])


def curve_names(comparison: Comparison) -> list[str]:
    """Return the names of all validation scores, in order."""
    return list(
        dict.fromkeys(
            name
            for run in comparison.runs
            for point in run.curve
            for name in point.scores
        )
    )


def draw_curves(comparison: Comparison) -> Figure | None:
    """Draw every validation score over updates: a line for each run, a colour for each system."""
    return _figure(
        [_curve_panel(comparison, name) for name in curve_names(comparison)],
        "Learning curves",
    )


def _curve_panel(comparison: Comparison, name: str) -> Panel | None:
    points_of = _over_updates(lambda point: point.scores.get(name))
    return _run_panel(
        comparison, points_of, CURVE_TITLES.get(name, plain(name)), "updates"
    )


def draw_entropy(comparison: Comparison) -> Figure | None:
    """Draw the entropy of the attention to the source over updates."""
    points_of = _over_updates(lambda point: point.entropy)
    return _figure(
        [_run_panel(comparison, points_of, "mean entropy, nats", "updates")],
        "Attention entropy",
    )


def _over_updates(
    value_of: Callable[[Point], float | None],
) -> Callable[[RunResult], Points]:
    """Return a function that lists the points (update, value) of a run."""

    def points_of(run: RunResult) -> Points:
        for point in run.curve:
            value = value_of(point)
            if value is not None:
                yield point.update, value

    return points_of


def draw_reliability(comparison: Comparison) -> Figure | None:
    """Draw the share of correct predictions against their probability."""

    def points_of(run: RunResult) -> Points:
        bins = run.calibration.bins if run.calibration else ()
        return sorted((part.probability, part.right) for part in bins if part.tokens)

    panel = _run_panel(
        comparison,
        points_of,
        "share that is right",
        "probability",
        ((0.0, 0.0), (1.0, 1.0)),
    )
    return _figure([panel], "Reliability diagram")


def draw_costs(comparison: Comparison) -> Figure | None:
    """Draw the main score against the first two costs in which systems differ, with a marker for
    each run.
    """
    score = main_score(comparison)
    panels = [_cost_panel(comparison, score, *cost) for cost in COSTS]
    drawn = [panel for panel in panels if panel is not None]
    return _figure(drawn[:2], f"{score} against cost")


def _cost_panel(
    comparison: Comparison, score: str, field: str, unit: str, factor: float
) -> Panel | None:
    """Make the panel of one cost; return None if systems hardly differ in it."""

    def points_of(run: RunResult) -> Points:
        run_score = run.score(score)
        cost = getattr(run.cost, field) if run.cost else None
        if run_score is not None and cost is not None:
            yield float(cost) * factor, run_score.value

    panel = _run_panel(comparison, points_of, score, unit)
    if panel is None or len({line.paint for line in panel.series}) < 2:
        return None
    costs = [line.points[0][0] for line in panel.series]
    return panel if max(costs) - min(costs) > 0.01 * abs(max(costs)) else None
