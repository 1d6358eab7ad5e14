"""Page of an experiment: claim, verdict, graph, tables and how it was made; it fetches nothing and runs no script."""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from regard.common.bilingual import Language, Text, words_by
from regard.learn.lab.experiment import Experiment
from regard.learn.lab.findings import OUTCOMES, Findings, Table
from regard.visualisation import draw_svg
from regard.visualisation.charts import layout_chart
from regard.visualisation.fonts import face
from regard.visualisation.html import STACK, colour_variables, fill_template, paint_rules

LABELS = {
    "claim": Text("The claim", "주장"),
    "source": Text("Note", "노트"),
    "sources": Text("Notes", "노트"),
    "method": Text("What was done", "실험 방법"),
    "tables": Text("The numbers", "수치"),
    "remarks": Text("Remarks", "덧붙임"),
    "repeat": Text("Repeat it", "다시 해 보기"),
}


@dataclass(frozen=True)
class Made:
    """The making of an experiment: its command, and lines on seeds, time and machine."""

    command: str
    facts: tuple[Text, ...]


def render_page(experiment: Experiment, findings: Findings, made: Made, language: Language) -> str:
    """Render the page in one of the languages."""
    chart = replace(findings.graph.chart("", language), caption="")
    parts = {
        "lang": language,
        "title": escape(experiment.title.by(language)),
        "claim": escape(experiment.claim.by(language)),
        "source": f"{LABELS['sources' if ',' in experiment.source else 'source'].by(language)} {experiment.source}",
        "outcome": findings.verdict.outcome,
        "outcome_text": escape(OUTCOMES[findings.verdict.outcome].by(language)),
        "verdict": _verdict(findings.verdict.text.by(language)),
        "caption": escape(findings.graph.caption.by(language)),
        "graph": draw_svg(layout_chart(chart), styled=False),
        "tables": "".join(_table(table, language) for table in findings.tables),
        "method": escape(experiment.method.by(language)),
        "remarks": _remarks(findings.remarks, language),
        "command": escape(made.command),
        "facts": "".join(f"<li>{escape(fact.by(language))}</li>" for fact in made.facts),
        **{f"label_{name}": escape(label.by(language)) for name, label in LABELS.items()},
    }
    style = face("".join(sorted({*string.printable, *"".join(parts.values())}))) + _style()
    parts["style"] = style
    parts["style_hash"] = "sha256-" + base64.b64encode(sha256(style.encode()).digest()).decode("ascii")
    return fill_template(_asset("page.html"), parts)


def _verdict(text: str) -> str:
    """Mark up a verdict; a number and its interval stay on one line."""
    return re.sub(r"[+−]?[\d.]+%? [\[(][^\])]*\d[\])]", r"<span>\g<0></span>", escape(text))


def _remarks(remarks: Sequence[Text], language: Language) -> str:
    if not remarks:
        return ""
    items = "".join(f"<p>{escape(remark.by(language))}</p>" for remark in remarks)
    return f"<section><h2>{escape(LABELS['remarks'].by(language))}</h2>{items}</section>"


def _table(table: Table, language: Language) -> str:
    head = "".join(f'<th scope="col">{escape(words_by(cell, language))}</th>' for cell in table.columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(words_by(first, language))}</th>'
        + "".join(f"<td>{escape(words_by(cell, language))}</td>" for cell in cells)
        + "</tr>"
        for first, *cells in table.rows
    )
    caption = escape(table.title.by(language))
    return (
        f'<p class="table">{caption}</p><div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n"
    )


@cache
def _asset(name: str) -> str:
    return files("regard.learn.lab").joinpath(f"assets/{name}").read_text(encoding="utf-8")


@cache
def _style() -> str:
    parts = {"stack": STACK, "colours": colour_variables(), "paints": paint_rules()}
    return fill_template(_asset("page.css"), parts)
