"""Living figures: the directive `living`, and the scripts, drawings and colours of the figures.

    ```{living} dictionary
    :state: rule=softmax temperature=0.3

    One sentence, which says what the drawing shows.
    ```

The option `state` says how the figure opens, as names and values that its script knows.
`figures/NAME.js` draws the figure when it comes into view, from `figures/data/NAME.json`; until
then, without JavaScript and in print there is a drawing of this state from `figures/stills`.
`make_figures.py` writes data and drawings.
"""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from html import escape
from pathlib import Path
from typing import Any

import make_figures
import narrow_graphs
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

import regard
from regard.common.bilingual import Language
from regard.runtime.module_script import bundle
from regard.visualisation.colours import ROLES, SERIES, THEMES, Theme, colour
from regard.visualisation.steps_page import steps_style

FIGURES = Path(__file__).parent / "figures"
MECHANISM = Path(regard.__file__).parent / "visualisation" / "assets" / "mechanism.css"
"""Styles of the diagram of a step, which figures share with the pages of `regard show`."""
PARTS = "parts"
"""The module that the figures share."""
WITHOUT_SCRIPTS = {
    "en": "This is a still of a figure that moves; it needs JavaScript.",
    "ko": "움직이는 그림의 한 장면입니다. 움직이려면 JavaScript가 필요합니다.",
}
SHADES = range(0, 101, 5)
"""Shades of weights that the style sheet has."""


def names() -> list[str]:
    """Return the names of all figures."""
    return sorted(path.stem for path in FIGURES.glob("*.js") if path.stem != PARTS)


class Living(SphinxDirective):
    """Figure that readers can change; its content is the sentence below it."""

    required_arguments = 1
    has_content = True
    option_spec = {"state": directives.unchanged}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        """Return the figure with its still drawing and its sentence."""
        name = self.arguments[0]
        if not self.content:
            raise self.error(
                f"the figure {name!r} needs a sentence that says what it shows"
            )
        page = self.env.docname
        language: Language = "ko" if page.startswith("ko/") else "en"
        prefix = "../" * page.count("/")
        content = self.parse_content_to_nodes()
        sentence = " ".join(node.astext() for node in content)
        state = self.options.get("state", "")
        still = make_figures.still_name(name, state, language)
        if not (FIGURES / "stills" / still).is_file():
            raise self.error(
                f"there is no drawing {still} of the figure {name!r}: run "
                f"python site/make_figures.py --stills {name}"
            )
        opening = opening_of(name, language, prefix, sentence, state)
        return [
            nodes.raw("", opening, format="html"),
            *content,
            nodes.raw("", "</figcaption></figure>", format="html"),
        ]


def opening_of(
    name: str, language: Language, prefix: str, sentence: str, state: str = ""
) -> str:
    """Return the HTML of a figure up to its sentence; `prefix` leads to the start of the site."""
    still = make_figures.still_name(name, state, language)
    extent = narrow_graphs.extent(FIGURES / "stills" / still)
    path = (FIGURES / "stills" / still).with_suffix(".narrow.svg")
    narrow = ""
    if path.is_file():
        narrow = (
            f'<source media="(max-width: 40rem)" {narrow_graphs.extent(path)}'
            f'srcset="{prefix}_static/figures/{path.name}">'
        )
    return (
        f'<figure class="living" data-figure="{name}" data-state="{escape(state)}">'
        f'<picture>{narrow}<img class="still" {extent}'
        f'src="{prefix}_static/figures/{still}" alt="{escape(sentence)}"></picture>'
        f'<noscript><p class="note">{WITHOUT_SCRIPTS[language]}</p></noscript>'
        "<figcaption>"
    )


def write(app: Any, exception: Exception | None) -> None:
    """Write scripts, drawings and colours below _static."""
    if exception is not None or app.builder.name != "html":
        return
    static = Path(app.outdir) / "_static"
    walkthrough = f".living .walkthrough {{\n{steps_style()}\n}}"
    mechanism = MECHANISM.read_text(encoding="utf-8")
    style = "\n".join([mechanism, colours(), walkthrough, shades()])
    (static / "living.css").write_text(style, encoding="utf-8")
    folder = static / "figures"
    folder.mkdir(exist_ok=True)
    for name in names():
        for language in make_figures.LANGUAGES:
            code = script(name, language).encode()
            (folder / f"{name}.{language}.js").write_bytes(code)
            packed = gzip.compress(code, 9, mtime=0)
            (folder / f"{name}.{language}.js.gz").write_bytes(packed)
        _copy_files(name, folder)
    for still in (FIGURES / "stills").glob("*.svg"):
        shutil.copyfile(still, folder / still.name)


def _copy_files(name: str, folder: Path) -> None:
    """Copy the files that a figure loads; a page from disk gets them from a script."""
    files = sorted((FIGURES / "data").glob(f"{name}.*.gz"))
    texts = {}
    for file in files:
        shutil.copyfile(file, folder / file.name)
        texts[file.name] = base64.b64encode(file.read_bytes()).decode("ascii")
    if texts:
        script = f"window.livingFiles = {json.dumps(texts)};\n"
        (folder / f"{name}.files.js").write_text(script, encoding="utf-8")


def script(name: str, language: Language) -> str:
    """Return a figure in a language as a script, with all that it imports and its data: a page that
    is opened from disk can load no modules and no JSON.
    """
    data = json.dumps(make_figures.filled(name, language), ensure_ascii=False)
    return (
        f"(() => {{\n{bundle(FIGURES / f'{name}.js')}\n"
        f'window.livingFigures["{name}"] = {{ draw, data: {data} }};\n}})();\n'
    )


def colours() -> str:
    """Return the colours of figures as CSS: light or dark as the page is, in print always light."""
    light, dark = (f".living {{ {_variables(theme)} }}" for theme in THEMES)
    return (
        f"{light}\n@media screen {{\n"
        f"@media (prefers-color-scheme: dark) {{ body:not([data-theme=light]) {dark} }}\n"
        f"body[data-theme=dark] {dark}\n}}"
    )


def shades() -> str:
    """Return the shades of weights as CSS, those of the steps of a walkthrough among them."""
    colours_of = "background: var(--w{0}); color: var(--v{0}); fill: var(--w{0})"
    return "\n".join(
        f".living .w{n}, .living .walkthrough .w{n} {{ {colours_of.format(n)} }}"
        for n in SHADES
    )


def _variables(theme: Theme) -> str:
    shades = (f"{kind}{n}" for n in SHADES for kind in "wvpn")
    paints = (*ROLES, *(f"s{n}" for n in range(SERIES)), *shades)
    return "; ".join(f"--{paint}: {colour(paint, theme)}" for paint in paints)
