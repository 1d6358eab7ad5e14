"""Self-contained HTML report of a comparison: summary, tables, figures, examples and all sentences.

The page fetches nothing: its content security policy allows only its own script and style, by their
hashes. Tables and figures are static; the script draws attention on demand and shows the table of
all sentences from packed data.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from regard.comparison import report_figures as figures
from regard.comparison import report_numbers as numbers
from regard.comparison import report_summary as decisions
from regard.comparison.report_commands import commands
from regard.comparison.result import Comparison
from regard.visualisation import draw_svg
from regard.visualisation.colours import SERIES
from regard.visualisation.html import script_colours
from regard.visualisation.template import templates
from regard.visualisation.text import clean

IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")
SENTENCE_SCORES = {"translation": "chrF", "captions": "CIDEr-D"}
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
}
"""Korean for the labels of breakdowns."""


def render_report(comparison: Comparison) -> str:
    """Render the report as one HTML page."""
    runs = comparison.runs
    is_captions = comparison.task == "captions"
    silent = [
        system.name
        for system in comparison.systems
        if not any(
            point.entropy is not None
            for name in system.runs
            for point in comparison.run(name).curve
        )
    ]
    values = {
        "comparison": comparison,
        "runs": runs,
        "is_captions": is_captions,
        "digits": _digits(comparison),
        "main_score": decisions.main_score(comparison),
        "score_names": decisions.score_names(comparison),
        "curve_names": figures.curve_names(comparison),
        "costs": figures.draw_costs(comparison),
        "curves": figures.draw_curves(comparison),
        "entropy": figures.draw_entropy(comparison),
        "reliability": figures.draw_reliability(comparison),
        "left_out": comparison.systems[SERIES:],
        "without_cost": [run.name for run in runs if run.cost is None],
        "without_entropy": silent,
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
    """Return the templates, with their filters for numbers and their figures."""
    environment = templates("regard.comparison")
    environment.filters |= {
        "number": numbers.number,
        "signed": numbers.signed,
        "probability": numbers.probability,
        "duration": numbers.duration,
        "interval": lambda value: numbers.between(value.low, value.high),
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
        "judge_others": decisions.judge_others,
        "length_gaps": decisions.length_gaps,
        "cost_ratio": decisions.cost_ratio,
        "bucket_order": figures.bucket_order,
        "draw_breakdown": figures.draw_breakdown,
    }
    return environment


def _digits(comparison: Comparison) -> int:
    return 2 if comparison.task == "captions" else 1


def _data(comparison: Comparison) -> dict[str, Any]:
    """Return what the script needs: each text once, and numbers of texts for all else."""
    texts: dict[str, int] = {}

    def store(text: str) -> int:
        return texts.setdefault(clean(text), len(texts))

    digits = _digits(comparison)
    places = {run.name: number for number, run in enumerate(comparison.runs)}
    values: dict[str, Any] = {
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
        "scores": [
            [
                round(score, digits) if math.isfinite(score) else None
                for score in run.sentence_scores
            ]
            for run in comparison.runs
        ],
        **script_colours(),
    }
    values["examples"] = [
        {
            places[name]: {
                "source": [clean(word) for word in weights.source],
                "target": [clean(word) for word in weights.target],
                "percent": weights.percent,
                "grid": weights.grid,
            }
            for name, weights in example.attention.items()
            if name in places
        }
        for example in comparison.examples
    ]
    return {**values, "texts": list(texts)}


def _pack(values: object) -> str:
    """Return JSON, compressed and in base64: a third of its size, and no text can close the script
    element.
    """
    text = json.dumps(
        values, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")
