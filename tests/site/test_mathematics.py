"""Formulas of pages: MathML in the page, plain text elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mathematics import plain_formula
from repository.pages import DOCS, read

PAGES = ("notes/002", "notes/003", "ko/notes/000", "ko/notes/001")
FENCES = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"W_Q", "W_Q"),
        (r"\sqrt{d_k}", "√d_k"),
        (r"QK^\top", "QKᵀ"),
        (r"\tilde{h} = \tanh(c)", "h̃ = tanh(c)"),
        (r"\frac{x - \mu}{\sigma}", "x − μ/ σ"),
        (r"-\infty", "−∞"),
        (r"s_0", "s₀"),
        (r"T'", "T′"),
    ],
)
def test_formulas_are_plain_text_for_the_search(tex: str, text: str) -> None:
    assert plain_formula(tex) == text


@pytest.mark.parametrize("page", PAGES)
def test_every_formula_of_a_page_is_drawn(page: str, site: Path) -> None:
    source = FENCES.sub("", read(DOCS / f"{page}.md"))
    formulas = len(re.findall(r"\$\$?[^$]+\$\$?", source))
    built = (site / f"{page}.html").read_text(encoding="utf-8")
    article = built.partition("<article")[2].partition("</article>")[0]
    assert formulas > 10
    assert len(re.findall(r"<math\b.*?</math>", article)) == formulas
    assert "$" not in re.sub(r"<pre.*?</pre>|<code.*?</code>", "", article, flags=re.S)
