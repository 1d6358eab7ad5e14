"""Page that steps through a computation, its numbers in boxes; without scripts, and printed, it
shows all steps.

It fetches nothing, and its content security policy forbids it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from jinja2 import Environment
from markupsafe import Markup, escape

from regard.common.bilingual import Language, Text
from regard.visualisation.colours import Theme, colour, level
from regard.visualisation.html import in_both_themes
from regard.visualisation.number_boxes import Step, Term, equations
from regard.visualisation.template import templates
from regard.visualisation.text import clean

SHADES = 5  # steps of the scale between two colours of a weight
# Numbers of a model up to which a page holds them all, and computes what follows from a changed
# one.
EDITABLE = 250_000
# Columns from which a matrix may be wider than a phone, and so is a region that keys can scroll.
SCROLLED = 6


def render_steps(
    title: Text,
    summary: Text,
    steps: Sequence[Step],
    is_batch: bool,
    language: Language,
) -> str:
    """Render the page in one of the languages; in a batch every shape has its axes."""
    values = {
        "lang": language,
        "title": clean(title.by(language)),
        "summary": summary,
        "program": _program(steps),
    }
    values["numbers"] = {
        term: number
        for number, term in enumerate(term for step in steps for term in step.terms)
    }
    return (
        _templates()
        .get_template("steps.html")
        .render(values, steps=steps, is_batch=is_batch)
    )


def _program(steps: Sequence[Step]) -> dict[str, Any] | None:
    """Return all terms, and the numbers that no equation computes, for scripts; None if they could
    not compute.
    """
    terms = [term for step in steps for term in step.terms]
    inputs = [
        term.values.astype("<f4").ravel()
        for term in terms
        if not (
            term.repeated
            or term.rule
            or term.kind == "tokens"
            or term.operator.endswith(("=", "→"))
        )
    ]
    if any(term.rule == "fixed" for term in terms) or sum(map(len, inputs)) > EDITABLE:
        return None
    rows = list[list[Any]]()
    for term in terms:
        name = getattr(term.name, "en", term.name)
        rule = "tokens" if term.kind == "tokens" else term.rule
        numbers = (
            None
            if term.parameter is None
            else np.array(term.parameter, np.float64, ndmin=term.values.ndim)
        )
        parameter = (
            None if numbers is None else [numbers.shape, numbers.ravel().tolist()]
        )
        rows.append(
            [
                name,
                term.letters,
                term.values.shape,
                term.operator,
                rule,
                parameter,
                term.repeated,
            ]
        )
    return {
        "terms": rows,
        "numbers": base64.b64encode(b"".join(map(bytes, inputs))).decode("ascii"),
    }


@cache
def _templates() -> Environment:
    environment = templates("regard.visualisation")
    environment.filters |= {
        "equations": equations,
        "typeset": _typeset,
        "shade": _shade,
    }
    environment.globals |= {
        "SCROLLED": SCROLLED,
        "shades": lambda: Markup(in_both_themes(_shades)),
    }
    return environment


def _shades(theme: Theme) -> str:
    """Return the colours of weights, and of the numbers on them."""
    return " ".join(
        f".w{n} {{ background: {colour(f'w{n}', theme)}; color: {colour(f'v{n}', theme)} }}"
        for n in range(0, 101, SHADES)
    )


def _shade(term: Term, value: float | str) -> str | None:
    """Return the class of a cell: the shade of a weight, or that it is hidden by the mask."""
    if term.kind == "weights":
        return f"w{SHADES * round(level(float(value)) / SHADES)}"
    return "hidden" if not isinstance(value, str) and value == float("-inf") else None


def _typeset(formula: str) -> Markup:
    """Mark up subscripts of weights (WQ, b1) and exponents."""
    text = re.sub(r"\b([Wb])([QKVO12])\b", r"\1<sub>\2</sub>", str(escape(formula)))
    return Markup(re.sub(r"\^\(([^)]*)\)", r"<sup>\1</sup>", text))
