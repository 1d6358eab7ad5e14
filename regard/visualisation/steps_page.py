"""Page that steps through a computation, its numbers in boxes; without scripts, and printed, it shows all steps.

It fetches nothing, and its content security policy forbids it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

from regard.common.bilingual import Language, Text, words_by
from regard.visualisation.colours import THEMES, Theme, colour, level
from regard.visualisation.fonts import face
from regard.visualisation.html import STACK, colour_variables, fill_template, in_both_themes
from regard.visualisation.number_boxes import Equation, NumberMatrix, Step, Term, equations
from regard.visualisation.text import clean

SHADES = 5
"""Steps of the scale between two colours of a weight."""
SCROLLED = 6
"""Columns from which a matrix may be wider than a phone, and so is a region that keys can scroll."""
LABELS = {
    "steps": Text("Steps", "단계"),
    "controls": Text("Step through", "한 단계씩"),
    "first": Text("First step", "처음 단계"),
    "back": Text("Previous", "이전"),
    "forth": Text("Next", "다음"),
    "all": Text("All at once", "한꺼번에 보기"),
    "one": Text("One by one", "한 단계씩 보기"),
    "of": Text("Step {0} of {1}", "{1}단계 가운데 {0}단계"),
    "every": Text("All {1} steps", "전체 {1}단계"),
    "hint": Text(
        "Arrow keys ← → go from step to step, Home and End to the first and the last, A shows all at once. Point at a "
        "number after “=” to see the row and the column that it is made of.",
        "화살표 키 ← →로 단계를 옮기고, Home과 End로 처음과 끝, A로 한꺼번에 볼 수 있습니다. “=” 뒤의 수를 가리키면 그 "
        "수를 만든 "
        "행과 열이 보입니다.",
    ),
}


def render_steps(title: Text, summary: Text, steps: Sequence[Step], is_batch: bool, language: Language) -> str:
    """Render the page in one of the languages; in a batch every shape has its axes."""
    labels = {f"label_{name}": escape(label.by(language)) for name, label in LABELS.items()}
    parts = {
        "lang": language,
        "title": escape(clean(title.by(language))),
        "summary": escape(clean(summary.by(language))),
        "outline": _outline(steps, language),
        "steps": "".join(_section(number, step, is_batch, language) for number, step in enumerate(steps, 1)),
        **labels,
    }
    letters = "".join(sorted({*"".join(parts.values()), *string.printable}))
    return fill_template(_asset("steps.html"), {**parts, "css": face(letters) + _style(), "js": _asset("steps.js")})


@cache
def _asset(name: str) -> str:
    return files("regard.visualisation").joinpath(f"assets/{name}").read_text(encoding="utf-8")


@cache
def _style() -> str:
    parts = {"stack": STACK, "colours": colour_variables(), "shades": in_both_themes(_shades)}
    return fill_template(_asset("steps.css"), parts)


def _shades(theme: Theme) -> str:
    """Return the colours of weights, and of the numbers on them."""
    assert theme in THEMES, "a theme"
    return " ".join(
        f".w{n} {{ background: {colour(f'w{n}', theme)}; color: {colour(f'v{n}', theme)} }}"
        for n in range(0, 101, SHADES)
    )


def _outline(steps: Sequence[Step], language: Language) -> str:
    """List the steps below their parts, as links."""
    items, part = list[str](), None
    for number, step in enumerate(steps, 1):
        if step.part != part:
            items.append(("</ol></li>" if part else "") + f"<li><span>{escape(step.part.by(language))}</span><ol>")
            part = step.part
        items.append(f'<li><a href="#step-{number}">{number}. {escape(step.title.by(language))}</a></li>')
    return f"<ol>{''.join(items)}</ol></li></ol>"


def _section(number: int, step: Step, is_batch: bool, language: Language) -> str:
    part, title, text = (escape(words.by(language)) for words in (step.part, step.title, step.text))
    formula = f'<p class="formula">{_typeset(step.formula)}</p>' if step.formula else ""
    product = f'<p class="product"><code>{escape(step.product)}</code></p>' if is_batch and step.product else ""
    lines = "".join(_equation(equation, is_batch, language) for equation in equations(step.terms))
    return (
        f'<section id="step-{number}" aria-labelledby="title-{number}"><p class="part">{part}</p>'
        f'<h2 id="title-{number}" tabindex="-1">{number}. {title}</h2>'
        f"{formula}<p>{text}</p>{product}{lines}</section>\n"
    )


def _typeset(formula: str) -> str:
    """Mark up subscripts of weights (WQ, b1) and exponents."""
    text = re.sub(r"\b([Wb])([QKVO12])\b", r"\1<sub>\2</sub>", escape(formula))
    return re.sub(r"\^\(([^)]*)\)", r"<sup>\1</sup>", text)


def _equation(equation: Equation, is_batch: bool, language: Language) -> str:
    label = equation.label.by(language)
    heading = f"<h3>{escape(label)}</h3>" if label else ""
    has_head = any(matrix.columns for _, matrix in equation.sides)  # then all have one: rows stand side by side
    terms = (_term(term, matrix, label, (is_batch, has_head), language) for term, matrix in equation.sides)
    kind = "line" if len(equation.sides) > 1 else "line alone"
    return f'<div class="{kind}">{heading}<div class="equation">{"".join(terms)}</div></div>'


def _term(term: Term, matrix: NumberMatrix, label: str, layout: tuple[bool, bool], language: Language) -> str:
    """Return a matrix with its name, and the operator before it; `layout`: in a batch, beside a matrix with a head."""
    name, (is_batch, has_head) = words_by(term.name, language), layout
    operator = f'<span class="operator" aria-hidden="true">{_typeset(term.operator)}</span>' if term.operator else ""
    notes = [escape(note) for note in (term.shape(is_batch), matrix.more.by(language) if matrix.more else "") if note]
    small = f" <small>{' · '.join(notes)}</small>" if notes else ""
    kind = term.kind + " result" * term.operator.endswith(("=", "→"))
    head = _head(matrix, language) if matrix.columns or (has_head and matrix.rows) else ""
    body = _body(term, matrix, language)
    table = f'<table class="{kind}"><caption>{_typeset(name)}{small}</caption>{head}<tbody>{body}</tbody></table>'
    spoken = escape(f"{name} {label}".strip())
    region = f' tabindex="0" role="region" aria-label="{spoken}"' if len(matrix.cells[0]) >= SCROLLED else ""
    return f'<div class="term">{operator}<div class="scroll"{region}>{table}</div></div>'


def _head(matrix: NumberMatrix, language: Language) -> str:
    if not matrix.columns:
        return "<thead><tr><td>&nbsp;</td></tr></thead>"
    cells = "".join(f'<th scope="col">{escape(clean(words_by(label, language)))}</th>' for label in matrix.columns)
    corner, more = "<td></td>" * bool(matrix.rows), "<td>…</td>" * bool(matrix.more_columns)
    return f"<thead><tr>{corner}{cells}{more}</tr></thead>"


def _body(term: Term, matrix: NumberMatrix, language: Language) -> str:
    lines = []
    labels = [f'<th scope="row">{escape(clean(words_by(label, language)))}</th>' for label in matrix.rows]
    for number, row in enumerate(matrix.cells):
        cells = "".join(
            f"<td{_shade(term, value)}>{escape(clean(cell))}</td>"
            for cell, value in zip(row, matrix.values[number], strict=True)
        )
        more = '<td class="more">…</td>' * bool(matrix.more_columns)
        lines.append(f"<tr>{labels[number] if labels else ''}{cells}{more}</tr>")
    if matrix.more_rows:
        width = len(matrix.cells[0]) + bool(matrix.more_columns)
        lines.append(f"<tr>{'<td></td>' * bool(labels)}{'<td class=more>⋮</td>' * width}</tr>")
    return "".join(lines)


def _shade(term: Term, value: float | str) -> str:
    """Return the class of a cell: the shade of a weight, or that it is hidden by the mask."""
    if term.kind == "weights":
        return f' class="w{SHADES * round(level(float(value)) / SHADES)}"'
    return ' class="hidden"' if not isinstance(value, str) and value == float("-inf") else ""
