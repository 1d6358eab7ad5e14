"""Formulas of pages, `$W_Q$` in Markdown: browsers draw them as MathML without a library; the
search, titles and lists of pages have them as plain text.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import tex2unichar
from docutils.utils.math.latex2mathml import tex2mathml

SIGNS: dict[str, str] = {
    **tex2unichar.mathalpha,
    **tex2unichar.mathbin,
    **tex2unichar.mathord,
    **tex2unichar.mathop,
    "tilde": "\u0303",
    "hat": "\u0302",
    "sqrt": "√",
    "top": "ᵀ",
    "cdot": "·",
}
"""Unicode of TeX's commands; accents, which TeX writes before their letter, combine with it."""
ACCENTED = re.compile(r"(\\(?:tilde|hat))\{(\w)\}")
UNSEEN = {"frac", "left", "mathrm", "quad", "right", "text"}
WORDS = '<mtext style="font-family: var(--font-stack)">'
"""Begins words of a formula: fonts of mathematics have no Hangul."""
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class formula(nodes.Inline, nodes.TextElement):  # noqa: N801 -- docutils finds its visitor by this name
    """Formula: its text is plain, its attribute `mathml` is what browsers draw."""


def plain_formula(tex: str) -> str:
    """Return a formula as one would type it."""
    text = ACCENTED.sub(r"\2\1 ", tex).replace("}{", " / ")  # parts of a fraction
    text = re.sub(r"\\([A-Za-z]+) ?", lambda m: SIGNS.get(m[1], _word(m[1])), text)
    text = re.sub(r"_(\d)", lambda m: m[1].translate(SUBSCRIPTS), text)
    text = text.replace("^ᵀ", "ᵀ").replace("'", "′").replace("-", "−")
    return re.sub(r"[{}\\]", "", text)


def _word(command: str) -> str:
    """Return what remains of a command that is no sign: a function's name, or nothing."""
    return "" if command in UNSEEN else command


def replace(app: Any, doctree: nodes.document) -> None:
    """Put formulas in the place of TeX's."""
    kinds = (nodes.math, nodes.math_block)
    for node in list(doctree.findall(lambda node: isinstance(node, kinds))):
        is_block = isinstance(node, nodes.math_block)
        mathml = tex2mathml(node.astext(), as_block=is_block)
        new = formula("", plain_formula(node.astext()), mathml=mathml)
        node.replace_self(nodes.paragraph("", "", new) if is_block else new)


def visit(translator: Any, node: formula) -> None:
    """Write a formula as MathML."""
    mathml = re.sub(r"\n\s*", "", node["mathml"])
    translator.body.append(mathml.replace("<mtext>", WORDS))
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Make the formulas of a site."""
    app.add_node(formula, html=(visit, None))
    # Before titles are kept.
    app.connect("doctree-read", replace, priority=400)
