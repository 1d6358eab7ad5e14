"""Self-contained interactive HTML page: attention of every layer and head, the search step by step, attributions.

The page fetches nothing, and its own content security policy forbids it; a page sent by a server may ask that server,
and no other, about another sentence.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from regard.visualisation.colours import LEVELS, ROLES, THEMES, Theme, colour
from regard.visualisation.explanation_data import ExplanationData, page_data
from regard.visualisation.fonts import STACK, face
from regard.visualisation.heatmap import Alignment
from regard.visualisation.overlay import OPACITY, VEIL
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
    values |= {"endpoint": meta.endpoint, "palette": _palette(), "veil": [*VEIL, OPACITY]}
    parts = {
        "title": escape(values["title"]),
        "connect": "connect-src 'self'" if meta.endpoint else "connect-src 'none'",
        "css": face(_letters(values)) + _style(),
        "source": "" if data.image else escape(" ".join(data.source)),
        "target": escape(" ".join(data.target)),
        "facts": _facts(values["facts"]),
        "js": _asset("page.js"),
        "data": _script_json(values),
    }
    return _fill(_asset("page.html"), parts)


@cache
def _asset(name: str) -> str:
    return files("regard.visualisation").joinpath(f"assets/{name}").read_text(encoding="utf-8")


def _fill(template: str, parts: Mapping[str, str]) -> str:
    """Replace the {{names}} of a template in one pass, so that inserted text is never expanded itself."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _letters(values: Mapping[str, Any]) -> str:
    """Return every character that the page may show, once and in order."""
    tokens = [candidate[0] for step in values["steps"] for candidate in step["candidates"]]
    tokens += [node[1] for step in values["steps"] for node in step["nodes"]]
    texts = [values["title"], *values["source"], *values["target"], *values["tokens"], *tokens, string.printable]
    names = [layer["name"] for layer in values["layers"]]
    texts += [*names, *values["facts"], *values["facts"].values(), _asset("page.html"), _asset("page.js")]
    return "".join(sorted({letter for text in texts for letter in text}))


def _palette() -> dict[str, dict[str, Any]]:
    """Return the colour scale, the colours of text on it and the roles, for the canvas."""
    return {
        theme: {
            "scale": [colour(f"w{n}", theme) for n in range(LEVELS + 1)],
            "text": [colour(f"v{n}", theme) for n in range(LEVELS + 1)],
            **{role: colour(role, theme) for role in ROLES},
        }
        for theme in THEMES
    }


@cache
def _style() -> str:
    return _fill(_asset("page.css"), {"stack": STACK, "roles": _in_both_themes(_roles)})


def _in_both_themes(rules: Callable[[Theme], str]) -> str:
    light, dark = (rules(theme) for theme in THEMES)
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}"


def _roles(theme: Theme) -> str:
    scale = "; ".join(f"--w{n}: {colour(f'w{n}', theme)}" for n in (8, 30, 70))
    return f":root {{ {'; '.join(f'--{role}: {colour(role, theme)}' for role in ROLES)}; {scale} }}"


def _script_json(values: object) -> str:
    """Return JSON that is safe in a script element: no text can close it, open a comment or end a line."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _facts(facts: Mapping[str, str]) -> str:
    rows = "".join(f"<dt>{escape(clean(name))}</dt><dd>{escape(clean(value))}</dd>" for name, value in facts.items())
    return f"<dl>{rows}</dl>" if rows else ""
