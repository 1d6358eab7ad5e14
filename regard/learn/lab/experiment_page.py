"""HTML page of an experiment: claim, verdict, graph, tables and method.

The page loads nothing from a network and has no script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from regard.common.bilingual import Language, Text
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import OUTCOMES, Findings
from regard.visualisation import draw_svg
from regard.visualisation.charts import layout_chart
from regard.visualisation.template import make_page

NARROW = 360.0
"""Width in pixels of the graph for narrow screens, whose text has the same size."""
INTERVALS = re.compile(r"([+−]?[\d.,]+ \([^)]*\d\))")
"""Means with their range in a verdict, within which the page must not break lines."""


def render_page(
    experiment: Experiment,
    findings: Findings,
    command: str,
    facts: Sequence[Text],
    language: Language,
) -> str:
    """Render the page in one of the languages; `facts`: lines on seeds, time and machine."""
    chart = replace(findings.graph.chart("", language), caption="")
    return make_page(
        "regard.learn.lab",
        "experiment_page.html",
        lang=language,
        experiment=experiment,
        findings=findings,
        command=command,
        facts=facts,
        outcomes=OUTCOMES,
        intervals=INTERVALS,
        graph=Markup(draw_svg(layout_chart(chart), styled=False)),
        narrow=Markup(draw_svg(layout_chart(chart, NARROW), styled=False)),
    )
