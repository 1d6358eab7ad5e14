"""Formulas of pages: MathML in the page, plain text elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from unicodedata import lookup

import pytest
from docutils.utils.math.latex2mathml import tex2mathml
from fontTools.ttLib import TTFont
from mathematics import plain_formula
from repository.pages import DOCS, read

SITE = Path(__file__).resolve().parents[2] / "site"
PAGES = ("notes/002", "notes/003", "ko/notes/000", "ko/notes/001")
UNSEEN = "\u2061"
"""Application of a function, which is not drawn."""
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


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the pages, of a site that has nothing but formulas."""
    folder = tmp_path_factory.mktemp("formulas")
    for page in PAGES:
        source = folder / "docs" / f"{page}.md"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(_without_code(page), encoding="utf-8")
    (folder / "docs" / "conf.py").write_text(
        'extensions = ["myst_parser", "mathematics"]\n'
        'myst_enable_extensions = ["dollarmath"]\n'
        'html_theme = "furo"\n'
        f"root_doc = {PAGES[0]!r}\n",
        encoding="utf-8",
    )
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-Q", "docs", "html"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(SITE)},
        check=True,
    )
    return folder / "html"


@pytest.mark.parametrize("page", PAGES)
def test_every_formula_of_a_page_is_drawn(page: str, drawn: Path) -> None:
    source = _without_code(page)
    formulas = len(re.findall(r"\$\$?[^$]+\$\$?", source))
    built = (drawn / f"{page}.html").read_text(encoding="utf-8")
    article = built.partition("<article")[2].partition("</article>")[0]
    assert formulas > 10
    assert len(re.findall(r"<math\b.*?</math>", article)) == formulas
    assert "$" not in re.sub(r"<pre.*?</pre>|<code.*?</code>", "", article, flags=re.S)


def _without_code(page: str) -> str:
    return FENCES.sub("", read(DOCS / f"{page}.md"))


def test_the_font_of_formulas_has_their_signs() -> None:
    """Those of the notes; browsers make a single letter of a formula italic."""
    font = TTFont(SITE / "static" / "NotoSansMath.woff")
    assert "MATH" in font, "sizes of limits and scripts"
    formulas = {
        tex
        for page in DOCS.glob("**/notes/*.md")
        for tex in re.findall(r"\$\$?([^$`\n]+)\$", FENCES.sub("", read(page)))
    }
    assert len(formulas) > 100
    lacking = set()
    for tex in formulas:
        mathml = re.sub(r"<mtext>.*?</mtext>", "", tex2mathml(tex), flags=re.DOTALL)
        mathml = re.sub(r"<mi>([A-Za-z])</mi>", _italic, mathml)
        signs = set(unescape(re.sub(r"<[^>]*>|\s", "", mathml))) - {UNSEEN}
        lacking |= {sign for sign in signs if ord(sign) not in font.getBestCmap()}
    assert lacking == set(), "write them into the font as CONTRIBUTING.md says"


def _italic(letter: re.Match[str]) -> str:
    """Return the italic sign of a letter; that of h is Planck's constant."""
    name = f"MATHEMATICAL ITALIC {'CAPITAL' if letter[1].isupper() else 'SMALL'} "
    return "\u210e" if letter[1] == "h" else lookup(f"{name}{letter[1].upper()}")
