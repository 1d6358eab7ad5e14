"""Self-contained HTML report of a comparison: summary, tables, figures, examples and all sentences.

The page makes no requests: its content security policy allows only its own script and style, by
their hashes. Tables and figures are static; the script draws attention on demand and the table of
all sentences from packed data.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from regard.comparison import decisions
from regard.comparison import report_figures as figures
from regard.comparison import report_numbers as numbers
from regard.comparison.report_commands import commands
from regard.comparison.result import (
    BEYOND,
    MIN_ITEMS,
    SMALL,
    AttentionMap,
    Comparison,
)
from regard.comparison.summary import LABELS
from regard.visualisation import draw_svg
from regard.visualisation.colours import SERIES
from regard.visualisation.html import script_colours
from regard.visualisation.template import templates
from regard.visualisation.text import clean

IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")
COSTS = (
    "weights",
    "operations",
    "updates",
    "training_tokens",
    "training_seconds",
    "tokens_per_second",
    "latency",
    "memory",
)
SENTENCE_SCORES = {"translation": "chrF", "captions": "CIDEr-D"}


def render_report(comparison: Comparison) -> str:
    """Render the report as one HTML page."""
    runs = comparison.runs
    is_captions = comparison.task == "captions"
    without_entropy = list[str]()
    for system in comparison.systems:
        curves = [comparison.run(name).curve for name in system.runs]
        if all(point.entropy is None for curve in curves for point in curve):
            without_entropy.append(system.name)
    values = {
        "comparison": comparison,
        "runs": runs,
        "is_captions": is_captions,
        "digits": _digits(comparison),
        "main_score": decisions.main_score(comparison),
        "score_names": decisions.score_names(comparison),
        "curve_names": figures.curve_names(comparison),
        "varying_costs": _varying_costs(comparison),
        "timing_engine": decisions.timing_engine(comparison),
        "costs": figures.draw_costs(comparison),
        "curves": figures.draw_curves(comparison),
        "entropy": figures.draw_entropy(comparison),
        "reliability": figures.draw_reliability(comparison),
        "left_out": comparison.systems[SERIES:],
        "without_cost": [run.name for run in runs if run.cost is None],
        "without_entropy": without_entropy,
        "beyond": decisions.beyond_training(comparison),
        "facts": {
            **comparison.facts,
            "SHA-256 of the test set": comparison.test.digest,
        },
        "commands": commands(comparison),
        "data": _pack(_data(comparison)),
    }
    return _templates().get_template("report.html").render(values)


@cache
def _templates() -> Environment:
    """Return the templates with filters for numbers and functions for figures."""
    environment = templates("regard.comparison")
    environment.filters |= {
        "number": numbers.number,
        "signed": numbers.signed,
        "probability": numbers.probability,
        "duration": numbers.duration,
        "interval": lambda value: numbers.between(value.low, value.high),
        "lead_interval": lambda lead: numbers.between(*lead[1:]),
        "plain": numbers.plain,
        "unbroken": lambda text: re.sub(r"(\d) %", "\\1\u00a0%", text),
        "svg": lambda drawing: Markup(draw_svg(drawing, styled=False)),
    }
    environment.tests["image"] = lambda uri: IMAGE.fullmatch(uri) is not None
    environment.globals |= {
        "SERIES": SERIES,
        "labels": LABELS,
        "lower_is_better": decisions.LOWER_IS_BETTER,
        "curve_titles": figures.CURVE_TITLES,
        "rank": decisions.rank,
        "verdict": decisions.verdict,
        "spread": numbers.spread,
        "MIN_ITEMS": MIN_ITEMS,
        "SMALL": SMALL,
        "BEYOND": BEYOND,
        "bucket_order": figures.bucket_order,
        "draw_breakdown": figures.draw_breakdown,
    }
    return environment


def _varying_costs(comparison: Comparison) -> list[str]:
    """Return the names of the costs in which runs differ, or, of a single run, those known."""
    costs = [run.cost for run in comparison.runs if run.cost is not None]
    values = {name: {getattr(cost, name) for cost in costs} for name in COSTS}
    is_alone = len(costs) == 1
    return [name for name in COSTS if len(values[name] - {None}) + is_alone > 1]


def _digits(comparison: Comparison) -> int:
    return 2 if comparison.task == "captions" else 1


def _data(comparison: Comparison) -> dict[str, object]:
    """Return the data that the script needs; each text is stored once and referred to by its
    index.
    """
    texts: dict[str, int] = {}

    def store(text: str) -> int:
        return texts.setdefault(clean(text), len(texts))

    digits = _digits(comparison)
    values: dict[str, object] = {
        "images": comparison.task == "captions",
        "score": SENTENCE_SCORES.get(comparison.task, ""),
        "digits": digits,
        "sources": [store(source) for source in comparison.test.sources],
        "references": [
            [store(text) for text in several] for several in comparison.test.references
        ],
        "runs": [clean(run.name) for run in comparison.runs],
        "outputs": [
            [store(output) for output in run.outputs] for run in comparison.runs
        ],
        "scores": [_rounded(run.sentence_scores, digits) for run in comparison.runs],
        **script_colours(),
    }
    indices = {run.name: index for index, run in enumerate(comparison.runs)}
    values["examples"] = [
        {
            indices[name]: _attention_values(attention_map)
            for name, attention_map in example.attention.items()
            if name in indices
        }
        for example in comparison.examples
    ]
    return {**values, "texts": list(texts)}


def _rounded(scores: Sequence[float], digits: int) -> list[float | None]:
    """Round scores for JSON; those that are not finite become None."""
    return [round(score, digits) if math.isfinite(score) else None for score in scores]


def _attention_values(attention_map: AttentionMap) -> dict[str, object]:
    return {
        "source": [clean(word) for word in attention_map.source],
        "target": [clean(word) for word in attention_map.target],
        "percent": attention_map.percent,
        "grid": attention_map.grid,
    }


def _pack(values: object) -> str:
    """Return JSON, compressed and in base64.

    This is a third of its size, and no text in it can close the script element.
    """
    text = json.dumps(
        values, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")
