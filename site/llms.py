"""The beginning of each page: in llms.txt, the list of pages for programs that read, and beside
results of a search.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

SUMMARY = (
    "Regard is a sequence-to-sequence toolkit with attention at its centre, on PyTorch: it trains "
    "translators and image captioners on one machine, translates, shows attention, and exports "
    "models to files, pages and servers. Python package and command: `regard`."
)
LENGTH = 200


def write(app: Any, exception: Exception | None) -> None:
    """Write llms.txt, in the order of the two start pages."""
    if exception is None and app.builder.name == "html":
        parts = ["# Regard", f"> {SUMMARY}"]
        for start in ("index", "ko/index"):
            for node in app.env.get_doctree(start).findall(addnodes.toctree):
                lines = [
                    _line(app, page)
                    for _, first in node["entries"]
                    for page in _with_pages_below(app, first)
                ]
                if lines:
                    parts.append(
                        "\n".join([f"## {node.get('caption') or 'More'}", "", *lines])
                    )
        (Path(app.outdir) / "llms.txt").write_text(
            "\n\n".join(parts) + "\n", encoding="utf-8"
        )
        summaries = {
            app.builder.get_target_uri(page): _summary(app, page)
            for page in sorted(app.env.found_docs)
        }
        script = f"window.summaries = {json.dumps(summaries, ensure_ascii=False)};\n"
        (Path(app.outdir) / "_static" / "summaries.js").write_text(
            script, encoding="utf-8"
        )


def _with_pages_below(app: Any, page: str) -> list[str]:
    """Return a page and those that it lists itself; none if it is not a page of the site."""
    below = app.env.toctree_includes.get(page, [])
    return [page, *below] if page in app.env.found_docs else []


def summarise(app: Any, doctree: nodes.document) -> None:
    """Keep the beginning of a page's first paragraph, when the page is read."""
    paragraph = next(iter(doctree.findall(nodes.paragraph)), None)
    text = plain(paragraph) if paragraph is not None else ""
    short = text if len(text) <= LENGTH else text[:LENGTH].rsplit(" ", 1)[0] + " …"
    app.env.metadata[app.env.docname]["beginning"] = short


def plain(node: nodes.Node) -> str:
    """Return the text of a node without the tags of HTML in it."""
    parts = [
        "" if isinstance(text.parent, nodes.raw) else text.astext()
        for text in node.findall(nodes.Text)
    ]
    return " ".join("".join(parts).split())


def _line(app: Any, page: str) -> str:
    summary = _summary(app, page)
    return (
        "- "
        f"[{app.env.titles[page].astext()}]({app.builder.get_target_uri(page)})"
        f"{f': {summary}' if summary else ''}"
    )


def _summary(app: Any, page: str) -> str:
    return str(app.env.metadata[page].get("beginning", ""))
