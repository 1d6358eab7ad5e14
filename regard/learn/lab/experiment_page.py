"""Page of an experiment: claim, verdict, graph, tables and how it was made; it fetches nothing and
runs no script.
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
"""Width in pixels of the graph for a telephone, with text of the same size."""
INTERVALS = re.compile(r"([+−]?[\d.,]+ \([^)]*\d\))")
"""Means with their lowest and highest value in a verdict, which stay on one line."""


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
