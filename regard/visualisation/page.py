"""One self-contained HTML page: who looked at what, and how the translation came about.

Nothing is fetched, and the page's own security policy forbids it; a page that a server sends may ask that server, and
nobody else, about another sentence.
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
from regard.visualisation.overlay import DENSITY, VEIL
from regard.visualisation.text import clean

__all__ = ["Meta", "render_page"]


@dataclass(frozen=True)
class Meta:
    """What a page says besides its story.

    `endpoint` is where the server that sends the page answers about other sentences: a path such as "/explain".
    """

    title: str = ""  # else the source sentence
    source_lang: str = ""  # as in HTML: "en", "ko", "pt-BR"; else Hangul is taken for Korean and the rest left open
    target_lang: str = ""
    facts: Mapping[str, str] | None = None  # shown at the foot: model, command, data
    endpoint: str = ""


def render_page(told: ExplanationData | Sequence[Alignment], meta: Meta | None = None) -> str:
    """The page of a story, or of one or more alignments of the same two sentences."""
    meta = meta or Meta()
    story = told if isinstance(told, ExplanationData) else ExplanationData.from_alignments(told)
    values = page_data(story, meta.title, (meta.source_lang, meta.target_lang))
    values["facts"] |= {clean(name): clean(value) for name, value in (meta.facts or {}).items()}
    values |= {"endpoint": meta.endpoint, "palette": _palette(), "veil": [*VEIL, DENSITY]}
    parts = {
        "title": escape(values["title"]),
        "connect": "connect-src 'self'" if meta.endpoint else "connect-src 'none'",
        "css": face(_letters(values)) + _style(),
        "source": "" if story.image else escape(" ".join(story.source)),
        "target": escape(" ".join(story.target)),
        "facts": _facts(values["facts"]),
        "js": _asset("page.js"),
        "data": _as_script(values),
    }
    return _fill(_asset("page.html"), parts)


@cache
def _asset(name: str) -> str:
    return files("regard.visualisation").joinpath(f"assets/{name}").read_text(encoding="utf-8")


def _fill(template: str, parts: Mapping[str, str]) -> str:
    """Put parts where the template names them, in one pass: what is put in is never looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _letters(values: Mapping[str, Any]) -> str:
    """Every character that the page can come to show, once and in order."""
    player = [option[0] for step in values["player"] for option in step["options"]]
    player += [node[1] for step in values["player"] for node in step["nodes"]]
    texts = [values["title"], *values["source"], *values["target"], *values["pieces"], *player, string.printable]
    names = [block["name"] for block in values["blocks"]]
    texts += [*names, *values["facts"], *values["facts"].values(), _asset("page.html"), _asset("page.js")]
    return "".join(sorted({letter for text in texts for letter in text}))


def _palette() -> dict[str, dict[str, Any]]:
    """The scale of weights and the colours of text on it, for the canvas."""
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
    return _fill(_asset("page.css"), {"stack": STACK, "roles": _in_both(_roles)})


def _in_both(rules: Callable[[Theme], str]) -> str:
    light, dark = (rules(theme) for theme in THEMES)
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}"


def _roles(theme: Theme) -> str:
    scale = "; ".join(f"--w{n}: {colour(f'w{n}', theme)}" for n in (8, 30, 70))
    return f":root {{ {'; '.join(f'--{role}: {colour(role, theme)}' for role in ROLES)}; {scale} }}"


def _as_script(values: object) -> str:
    """JSON that may stand in a script element: no text can close it, open a comment, or end a line of JavaScript."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _facts(facts: Mapping[str, str]) -> str:
    rows = "".join(f"<dt>{escape(clean(name))}</dt><dd>{escape(clean(value))}</dd>" for name, value in facts.items())
    return f"<dl>{rows}</dl>" if rows else ""
