"""Page that steps through a computation with its numbers in boxes; without scripts, or printed, it
shows all steps.

The page makes no requests; its content security policy forbids them.
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

SHADES = 5  # steps of the colour scale between two shades of a weight
# A page holds all numbers of a model up to this size; the reader can edit them, and the page
# computes the results anew.
EDITABLE = 250_000
# Matrices with this many columns may be wider than a phone, so the keyboard can scroll them.
SCROLLED = 6


def render_steps(
    title: Text,
    summary: Text,
    steps: Sequence[Step],
    is_batch: bool,
    language: Language,
) -> str:
    """Render the page in one language; for a batch, every shape is written with its axes."""
    template = _templates().get_template("steps.html")
    return template.render(
        title=clean(title.by(language)),
        summary=summary,
        **_values(steps, is_batch, language),
    )


def render_steps_body(steps: Sequence[Step], is_batch: bool, language: Language) -> str:
    """Render the steps without a page around them, for `steps.js`."""
    template = _templates().get_template("steps_body.html")
    return template.render(_values(steps, is_batch, language))


def steps_style() -> str:
    """Return the style sheet of the steps."""
    return _templates().get_template("steps.css").render()


def _values(
    steps: Sequence[Step], is_batch: bool, language: Language
) -> dict[str, Any]:
    """Return the values of the template of all steps."""
    terms = [term for step in steps for term in step.terms]
    return {
        "lang": language,
        "program": _program(terms),
        "numbers": {term: number for number, term in enumerate(terms)},
        "steps": steps,
        "is_batch": is_batch,
    }


def _program(terms: Sequence[Term]) -> dict[str, Any] | None:
    """Return all terms and the input numbers, from which the script computes the results.

    Return None if the script cannot compute them: a term is fixed, or there are too many numbers.
    """
    inputs = [term.values.astype("<f4").ravel() for term in terms if _is_input(term)]
    size = sum(len(numbers) for numbers in inputs)
    if any(term.rule == "fixed" for term in terms) or size > EDITABLE:
        return None
    content = b"".join(numbers.tobytes() for numbers in inputs)
    return {
        "terms": [_term_values(term) for term in terms],
        "numbers": base64.b64encode(content).decode("ascii"),
    }


def _is_input(term: Term) -> bool:
    """Return whether no equation computes the numbers of a term."""
    is_result = bool(term.rule) or term.operator.endswith(("=", "→"))
    return not (term.repeated or is_result or term.kind == "tokens")


def _term_values(term: Term) -> list[Any]:
    """Return name, axes, shape, operator, rule, parameter, and whether the term is repeated."""
    parameter = None
    if term.parameter is not None:
        numbers = np.array(term.parameter, np.float64, ndmin=term.values.ndim)
        parameter = [numbers.shape, numbers.ravel().tolist()]
    return [
        getattr(term.name, "en", term.name),
        term.letters,
        term.values.shape,
        term.operator,
        "tokens" if term.kind == "tokens" else term.rule,
        parameter,
        term.repeated,
    ]


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
    """Return the CSS rules for the colours of weights and of the numbers on them."""
    return " ".join(
        f".w{n} {{ background: {colour(f'w{n}', theme)}; color: {colour(f'v{n}', theme)} }}"
        for n in range(0, 101, SHADES)
    )


def _shade(term: Term, value: float | str) -> str | None:
    """Return the CSS class of a cell: the shade of a weight, or "hidden" behind the mask."""
    if term.kind == "weights":
        return f"w{SHADES * round(level(float(value)) / SHADES)}"
    is_hidden = not isinstance(value, str) and value == float("-inf")
    return "hidden" if is_hidden else None


def _typeset(formula: str) -> Markup:
    """Mark up subscripts of weights (WQ, b1) and exponents."""
    text = re.sub(r"\b([Wb])([QKVO12])\b", r"\1<sub>\2</sub>", str(escape(formula)))
    return Markup(re.sub(r"\^\(([^)]*)\)", r"<sup>\1</sup>", text))
