"""Self-contained interactive HTML page: attention of every layer and head, the search step by step,
attributions.

The page makes no requests, and its content security policy forbids them. A page that a server sends
may ask that server, and no other, about further sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.visualisation.explanation_data import ExplanationData, page_data
from regard.visualisation.heatmap import Alignment
from regard.visualisation.html import script_colours
from regard.visualisation.language import LANGUAGE
from regard.visualisation.template import make_page
from regard.visualisation.text import clean


@dataclass(frozen=True)
class Meta:
    """Title, languages and facts of a page.

    - `title`: if empty, the source sentence, or the caption of an image.
    - `source_lang`, `target_lang`: codes as in HTML, such as "en" or "pt-BR"; if empty, Korean is
      recognised by its script.
    - `facts`: model, command and data, shown at the foot of the page.
    - `endpoint`: path such as "/explain" at which the server of the page explains other sentences.
    """

    title: str = ""
    source_lang: str = ""
    target_lang: str = ""
    facts: Mapping[str, str] | None = None
    endpoint: str = ""


def render_page(
    explained: ExplanationData | Sequence[Alignment], meta: Meta | None = None
) -> str:
    """Render the page of an explanation, or of one or more alignments of the same two sentences."""
    meta = meta or Meta()
    data = explained
    if not isinstance(data, ExplanationData):
        data = ExplanationData.from_alignments(data)
    values = page_data(data, meta.title, (meta.source_lang, meta.target_lang))
    for name, value in (meta.facts or {}).items():
        values["facts"][clean(name)] = clean(value)
    values["endpoint"] = meta.endpoint
    values["language"] = "" if LANGUAGE.get() == "en" else LANGUAGE.get()
    values.update(script_colours())
    source = "" if data.image else " ".join(data.source)
    target = " ".join(data.target)
    return make_page(
        "regard.visualisation", "show.html", data=values, source=source, target=target
    )
