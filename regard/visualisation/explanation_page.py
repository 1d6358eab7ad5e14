"""Self-contained interactive HTML page: attention of every layer and head, the search step by step,
attributions.

The page fetches nothing, and its own content security policy forbids it; a page sent by a server
may ask that server, and no other, about another sentence.
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

    `endpoint`: path such as "/explain" at which the server that sends the page answers about other
    sentences.
    """

    title: str = ""  # if empty, the source sentence, or the caption of an image
    source_lang: str = (
        ""  # as in HTML: "en", "ko", "pt-BR"; if empty, Korean is recognised by Hangul
    )
    target_lang: str = ""
    # Shown at the foot of the page: model, command, data.
    facts: Mapping[str, str] | None = None
    endpoint: str = ""


def render_page(
    explained: ExplanationData | Sequence[Alignment], meta: Meta | None = None
) -> str:
    """Render the page of an explanation, or of one or more alignments of the same two sentences."""
    meta = meta or Meta()
    data = (
        explained
        if isinstance(explained, ExplanationData)
        else ExplanationData.from_alignments(explained)
    )
    values = page_data(data, meta.title, (meta.source_lang, meta.target_lang))
    values["facts"] |= {
        clean(name): clean(value) for name, value in (meta.facts or {}).items()
    }
    values |= {
        "endpoint": meta.endpoint,
        "language": LANGUAGE.get().replace("en", ""),
        **script_colours(),
    }
    source = "" if data.image else " ".join(data.source)
    target = " ".join(data.target)
    return make_page(
        "regard.visualisation", "show.html", data=values, source=source, target=target
    )
