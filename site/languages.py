"""The second language of the site: Korean pages are below ko/, with their own navigation, and say
so to browsers.
"""

from __future__ import annotations

import gettext
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import search_data
import sphinx
from sphinx import addnodes
from sphinx.environment.adapters.toctree import TocTree

KOREAN = {
    "Search": "검색",
    "Skip to content": "본문으로 건너뛰기",
    "Back to top": "맨 위로",
    "On this page": "이 문서의 내용",
    "Next": "다음",
    "Previous": "이전",
    "Home": "처음",
    "Error": "오류",
    "Please activate JavaScript to enable the search functionality.": "검색하려면 JavaScript를 "
    "켜세요.",
}
"""The words of the theme; those of Sphinx itself are translated by Sphinx."""
RESULTS = {
    "Search finished, found one page matching the search query.": [
        "문서 ${resultCount}개를 찾았습니다."
    ],
}
"""The words of the search page that Sphinx has not translated."""
SEARCH = "search-ko"
"""The Korean search page: beside the English one, since Sphinx writes links of results as from
there.
"""
LABELS = {
    "sidebar-drawer": ("Pages", "문서 목록"),
    "toc-drawer": ("On this page", "이 문서의 내용"),
}
"""Names of the theme's landmarks, for screen readers."""
LOCALE = Path(sphinx.__file__).parent / "locale"


def set_language(
    app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give a page its language and the address of its counterpart; a Korean one, words and
    navigation in Korean.
    """
    korean = pagename.startswith("ko/") or pagename == SEARCH
    other = pagename.removeprefix("ko/") if korean else f"ko/{pagename}"
    other = {"search": SEARCH, SEARCH: "search"}.get(pagename, other)
    pages = {*app.env.found_docs, "search", SEARCH}
    context["is_translated"] = other in pages
    context["counterpart"] = (
        other if other in pages else "index" if korean else "ko/index"
    )
    context["language"] = "ko" if korean else "en"
    if pagename in ("search", SEARCH):
        context["texts"] = search_data.preloaded(app.env.found_docs, korean)
    context["own_start"], context["own_search"] = (
        ("ko/index", SEARCH) if korean else ("index", "search")
    )
    context["master_doc"] = context["own_start"]  # where the brand leads
    if korean:
        sphinx_words = gettext.translation("sphinx", str(LOCALE), ["ko"])
        context["gettext"] = context["_"] = lambda text: (
            KOREAN.get(text) or sphinx_words.gettext(text)
        )
        context["prev"], context["next"] = _neighbours(app, pagename)
        context["toctree"] = lambda **options: _navigation(app, pagename, options)


def _neighbours(app: Any, pagename: str) -> list[dict[str, str] | None]:
    """Return the Korean pages before and after one, in the order of the navigation."""
    order = list(_pages_below(app, "ko/index"))
    near: list[str | None] = [None, *order, None]
    at = near.index(pagename) if pagename in order else 0
    pages = [near[at - 1], near[at + 1]] if at else [None, None]
    return [
        {
            "link": app.builder.get_relative_uri(pagename, page),
            "title": app.env.titles[page].astext(),
        }
        if page
        else None
        for page in pages
    ]


def _pages_below(app: Any, page: str) -> Iterator[str]:
    """Yield a Korean page and those that it lists, each followed by its own."""
    if page.startswith("ko/"):
        yield page
        for child in app.env.toctree_includes.get(page, []):
            yield from _pages_below(app, child)


def name_landmarks(app: Any, exception: Exception | None) -> None:
    """Give the theme's landmarks their names, and the captions of the navigation their level."""
    if exception is not None or app.builder.name != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        text = before = path.read_text(encoding="utf-8")
        is_korean = '<html class="no-js" lang="ko"' in text
        for name, words in LABELS.items():
            text = text.replace(
                f'<aside class="{name}',
                f'<aside aria-label="{words[is_korean]}" class="{name}',
            )
        text = text.replace(
            '<p class="caption" role="heading">',
            '<p class="caption" role="heading" aria-level="2">',
        )
        if text != before:
            path.write_text(text, encoding="utf-8")


def _navigation(app: Any, pagename: str, options: dict[str, Any]) -> str:
    """Return the tree of pages that starts at ko/index."""
    # The search page lies beside it.
    page = pagename if pagename in app.env.found_docs else "index"
    options = {
        "prune": False,
        "maxdepth": -1,
        "titles_only": True,
        "includehidden": True,
        **options,
    }
    tree = addnodes.compact_paragraph("", "", toctree=True)
    for node in app.env.get_doctree("ko/index").findall(addnodes.toctree):
        resolved = TocTree(app.env).resolve(page, app.builder, node, **options)
        if resolved is not None:
            tree += resolved.children
    return str(app.builder.render_partial(tree)["fragment"]) if len(tree) else ""


def write_words(app: Any, exception: Exception | None) -> None:
    """Write the words of the Korean search page: the script that Sphinx ships, and what it
    lacks.
    """
    if exception is None and app.builder.name == "html":
        words = (LOCALE / "ko" / "LC_MESSAGES" / "sphinx.js").read_text(
            encoding="utf-8"
        )
        results = (
            "Object.assign(Documentation.TRANSLATIONS, "
            f"{json.dumps(RESULTS, ensure_ascii=False)});\n"
        )
        (Path(app.outdir) / "_static" / "ko-words.js").write_text(
            f"{words}\n{results}", encoding="utf-8"
        )
