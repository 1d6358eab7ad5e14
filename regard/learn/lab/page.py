"""Page of an experiment: claim, verdict, graph, tables and how it was made; it fetches nothing and runs no script."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from markupsafe import Markup

from regard.common.bilingual import Language, Text
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import OUTCOMES, Findings
from regard.visualisation import draw_svg
from regard.visualisation.charts import layout_chart
from regard.visualisation.template import make_page

INTERVALS = re.compile(r"([+−]?[\d.]+%? [\[(][^\])]*\d[\])])")
"""Numbers with their intervals in a verdict, which stay on one line."""


@dataclass(frozen=True)
class Made:
    """The making of an experiment: its command, and lines on seeds, time and machine."""

    command: str
    facts: tuple[Text, ...]


def render_page(experiment: Experiment, findings: Findings, made: Made, language: Language) -> str:
    """Render the page in one of the languages."""
    chart = replace(findings.graph.chart("", language), caption="")
    return make_page(
        "regard.learn.lab",
        "page.html",
        lang=language,
        experiment=experiment,
        findings=findings,
        made=made,
        outcomes=OUTCOMES,
        intervals=INTERVALS,
        graph=Markup(draw_svg(layout_chart(chart), styled=False)),
    )
