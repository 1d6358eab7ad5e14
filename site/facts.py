"""Roles of numbers that depend on a training: {fact}`name` writes the values that
`python site/make_figures.py facts` found, and in how many trainings the statement holds;
{only}`name` writes that it holds in one of them alone; {every}`name` writes the values alone of
what holds in all, where the sentence says so.
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
    """Write the values of the trainings that a statement is true of, how many these are, and the
    probability that chance would give as many.
    """
    count, all_count = sum(fact["holds"]), len(fact["values"])
    span = span_of(fact, language)
    chance = f"{100 * fact['chance']:.0f}%" if "chance" in fact else ""
    if language == "ko":
        counts = f"{KOREAN_COUNTS[all_count]} 번의 학습 "
        which = "모두" if count == all_count else f"중 {KOREAN_COUNTS[count]} 번"
        return f"{span}, {counts}{which}" + (chance and f", 우연일 확률 {chance}")
    by_chance = chance and f"; by chance {chance}"
    return f"{span}, in {count} of {all_count} trainings{by_chance}"


def span_of(fact: dict[str, Any], language: str) -> str:
    """Write the least and the greatest value of the trainings that a statement is true of."""
    values = [
        value
        for value, holds in zip(fact["values"], fact["holds"], strict=True)
        if holds
    ]
    low, high = (
        f"{value:.{fact['digits']}f}{fact['unit']}"
        for value in (min(values), max(values))
    )
    if low == high:
        return low
    if language == "ko":
        return f"{low.removesuffix(fact['unit'])}~{high}"
    return f"{low} to {high}"


def once(fact: dict[str, Any], language: str) -> str:
    """Write that a statement is true of one training alone, and its value there."""
    value = f"{fact['values'][fact['holds'].index(True)]:.{fact['digits']}f}"
    value += fact["unit"]
    count = len(fact["values"])
    if language == "ko":
        return f"{KOREAN_COUNTS[count]} 번 가운데 한 번에만({value})"
    return f"in one of {count} trainings alone ({value})"


WRITERS = {"fact": written, "only": once, "every": span_of}
"""How each role writes a fact."""


class Fact(SphinxRole):
    """Role `fact`, `only` or `every`; a name that the file lacks, and a statement that holds in
    more or fewer trainings than the role says, are errors of the page.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the text of the fact."""
        language = "ko" if self.env.docname.startswith("ko/") else "en"
        self.env.note_dependency(FILE)
        fact = known().get(self.text)
        problem = ""
        if fact is None:
            problem = f"there is no fact {self.text!r} in {FILE.name}"
        elif (sum(fact["holds"]) == 1) != (self.name == "only"):
            problem = (
                f"{self.text!r} holds in {sum(fact['holds'])} trainings: the role `only` "
                f"states what holds in one, `fact` what holds in {LEAST} or more"
            )
        elif self.name == "every" and not all(fact["holds"]):
            problem = (
                f"{self.text!r} does not hold in all trainings, as the role `every` says: use "
                "`fact`, which says in how many it does"
            )
        if problem:
            message = self.inliner.reporter.error(problem, line=self.lineno)
            return [nodes.problematic(self.rawtext, self.rawtext)], [message]
        return [nodes.Text(WRITERS[self.name](fact, language))], []
