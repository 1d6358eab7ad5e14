"""Self-contained interactive HTML page: attention of every layer and head, the search step by step, attributions.

The page fetches nothing, and its own content security policy forbids it; a page sent by a server may ask that server,
and no other, about another sentence.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from regard.visualisation.colours import OPACITY, VEIL
from regard.visualisation.explanation_data import ExplanationData, page_data
from regard.visualisation.fonts import face
from regard.visualisation.heatmap import Alignment
from regard.visualisation.html import (
    STACK,
    asset,
    fill_page,
    fill_template,
    own_policy,
    page_style,
    palette,
    script_json,
)
from regard.visualisation.text import clean


@dataclass(frozen=True)
class Meta:
    """Title, languages and facts of a page.

    `endpoint`: path such as "/explain" at which the server that sends the page answers about other sentences.
    """

    title: str = ""  # if empty, the source sentence, or the caption of an image
    source_lang: str = ""  # as in HTML: "en", "ko", "pt-BR"; if empty, Korean is recognised by Hangul
    target_lang: str = ""
    facts: Mapping[str, str] | None = None  # shown at the foot of the page: model, command, data
    endpoint: str = ""


def render_page(explained: ExplanationData | Sequence[Alignment], meta: Meta | None = None) -> str:
    """Render the page of an explanation, or of one or more alignments of the same two sentences."""
    meta = meta or Meta()
    data = explained if isinstance(explained, ExplanationData) else ExplanationData.from_alignments(explained)
    values = page_data(data, meta.title, (meta.source_lang, meta.target_lang))
    values["facts"] |= {clean(name): clean(value) for name, value in (meta.facts or {}).items()}
    values |= {"endpoint": meta.endpoint, "palette": palette(), "veil": [*VEIL, OPACITY]}
    sentences = {"source": "" if data.image else escape(" ".join(data.source)), "target": escape(" ".join(data.target))}
    parts = {
        "title": escape(values["title"]),
        "policy": own_policy(connect="'self'" if meta.endpoint else "'none'"),
        "css": face(_letters(values)) + page_style(STACK),
        "top": fill_template(asset("show.html"), sentences),
        "facts": facts_list(values["facts"]),
        "js": asset("page.js"),
        "data": script_json(values),
    }
    return fill_page(parts)


def _letters(values: Mapping[str, Any]) -> str:
    """Return every character that the page may show, once and in order."""
    tokens = [candidate[0] for step in values["steps"] for candidate in step["candidates"]]
    tokens += [node[1] for step in values["steps"] for node in step["nodes"]]
    texts = [values["title"], *values["source"], *values["target"], *values["tokens"], *tokens, string.printable]
    names = [layer["name"] for layer in values["layers"]]
    texts += [*names, *values["facts"], *values["facts"].values()]
    texts += map(asset, ("page.html", "show.html", "page.js"))
    return "".join(sorted({letter for text in texts for letter in text}))


def facts_list(facts: Mapping[str, str]) -> str:
    """Return names and values as an HTML list; nothing of none."""
    rows = "".join(f"<dt>{escape(clean(name))}</dt><dd>{escape(clean(value))}</dd>" for name, value in facts.items())
    return f"<dl>{rows}</dl>" if rows else ""
