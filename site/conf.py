"""Configuration of the site: `make site` has Sphinx build docs/ into build/site/, in English and in
Korean.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import facts  # noqa: E402
import hangul  # noqa: E402
import languages  # noqa: E402
import live  # noqa: E402
import living  # noqa: E402
import llms  # noqa: E402
import narrow_graphs  # noqa: E402
import reference  # noqa: E402
import search_data  # noqa: E402
import source_archive  # noqa: E402
from korean_search import SearchBothLanguages  # noqa: E402

import regard  # noqa: E402

project = "Regard"
author = "the Regard authors"
release = regard.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "mathematics"]
html_theme = "furo"
html_title = "Regard"
templates_path = ["templates"]
html_static_path = ["static"]
html_favicon = "static/icon.svg"
html_css_files = ["living.css", "site.css", "figures.css"]
html_js_files = ["site.js", "start.js", "folding.js", "living.js"]
# Summaries would be fetched, which a page from disk may not.
html_copy_source, html_show_search_summary = (
    False,
    False,
)
html_use_index = False
html_show_copyright = False
html_search_language = "en"
html_search_scorer = str(HERE / "scorer.js")
html_additional_pages = {languages.SEARCH: "search.html"}
html_sidebars = {
    "**": [
        f"sidebar/{part}.html"
        for part in (
            "brand",
            "languages",
            "search",
            "scroll-start",
            "navigation",
            "scroll-end",
        )
    ]
}
COLOURS = {
    "font-stack": hangul.STACK,
    "font-stack--monospace": hangul.MONOSPACE,
    "color-brand-primary": "#1b5e8c",
    "color-brand-content": "#1b5e8c",
    "color-brand-visited": "#6b4a9c",
}
DARK = {
    "color-brand-primary": "#7cc0ee",
    "color-brand-content": "#7cc0ee",
    "color-brand-visited": "#c3a6f0",
}
html_theme_options = {
    "light_css_variables": COLOURS,
    "dark_css_variables": DARK,
    "top_of_page_buttons": [],
}
myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence", "attrs_inline", "dollarmath"]
smartquotes = False  # options begin with --
default_role = "code"  # docstrings write `name` as Markdown does
autodoc_typehints = "signature"
autodoc_default_options = {"exclude-members": "model_config,model_post_init,__init__"}
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
nitpicky = False  # types of other packages have no page here


# It tells of each glyph that a page leaves out.
logging.getLogger("fontTools").setLevel(logging.ERROR)


def setup(app: Any) -> None:
    """Add what Sphinx lacks: pages from the program, a second language, search in Korean, a
    translator, living figures, the source.
    """
    app.add_directive("living", living.Living)
    for role in facts.WRITERS:
        app.add_role(role, facts.Fact())
    app.add_search_language(SearchBothLanguages)
    app.connect("source-read", reference.fill)
    app.connect("source-read", source_archive.offer)
    app.connect("source-read", narrow_graphs.add)
    app.connect("html-page-context", narrow_graphs.load_late)
    app.connect("autodoc-process-docstring", reference.clean_docstring)
    app.connect("autodoc-process-signature", reference.shorten_signature)
    app.connect("doctree-read", llms.summarise)
    app.connect("doctree-read", search_data.keep)
    # Before the theme draws the navigation.
    app.connect("html-page-context", languages.set_language, priority=400)
    app.connect("build-finished", languages.name_landmarks)
    app.connect("build-finished", languages.write_words)
    app.connect("build-finished", live.write)
    app.connect("build-finished", living.write)
    app.connect("build-finished", search_data.write)
    app.connect("build-finished", source_archive.write)
    app.connect("build-finished", hangul.write)
    app.connect("build-finished", llms.write)
