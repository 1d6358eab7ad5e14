"""Roles of numbers that depend on a training: {fact}`name` writes the values that
`python site/make_figures.py facts` found, and in how many trainings the statement holds;
{only}`name` writes that it holds in one of them alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxRole

FILE = Path(__file__).parent / "figures" / "data" / "facts.json"
LEAST = 2
"""In fewer trainings than these nothing is said to be so."""
KOREAN_COUNTS = {2: "두", 3: "세"}


def known() -> dict[str, Any]:
    """Return the facts by name: the values of all trainings, and which of them the statement is
    true of.
    """
    facts: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return facts


def written(fact: dict[str, Any], language: str) -> str:
    """Write the values of the trainings that a statement is true of, and how many these are."""
    values = [
        value
        for value, holds in zip(fact["values"], fact["holds"], strict=True)
        if holds
    ]
    texts = [f"{value:.{fact['digits']}f}{fact['unit']}" for value in values]
    low, high = texts[values.index(min(values))], texts[values.index(max(values))]
    count, all_count = len(values), len(fact["values"])
    if language == "ko":
        span = low if low == high else f"{low}~{high}"
        counts = f"{KOREAN_COUNTS[all_count]} 번의 학습 "
        which = "모두" if count == all_count else f"중 {KOREAN_COUNTS[count]} 번"
        return f"{span}, {counts}{which}"
    span = low if low == high else f"{low} to {high}"
    return f"{span}, in {count} of {all_count} trainings"


def once(fact: dict[str, Any], language: str) -> str:
    """Write that a statement is true of one training alone, and its value there."""
    value = f"{fact['values'][fact['holds'].index(True)]:.{fact['digits']}f}"
    value += fact["unit"]
    count = len(fact["values"])
    if language == "ko":
        return f"{KOREAN_COUNTS[count]} 번 가운데 한 번에만({value})"
    return f"in one of {count} trainings alone ({value})"


class Fact(SphinxRole):
    """Role `fact`; a name that the file lacks, and a statement that is true of one training alone,
    are errors of the page.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the text of the fact."""
        language = "ko" if self.env.docname.startswith("ko/") else "en"
        fact = known().get(self.text)
        problem = ""
        if fact is None:
            problem = f"there is no fact {self.text!r} in {FILE.name}"
        elif (sum(fact["holds"]) == 1) != (self.name == "only"):
            problem = (
                f"{self.text!r} holds in {sum(fact['holds'])} trainings: the role `only` "
                f"states what holds in one, `fact` what holds in {LEAST} or more"
            )
        if problem:
            message = self.inliner.reporter.error(problem, line=self.lineno)
            return [nodes.problematic(self.rawtext, self.rawtext)], [message]
        write = once if self.name == "only" else written
        return [nodes.Text(write(fact, language))], []
