"""Live page: one HTML file with models, library and the page of an explanation, which translates offline."""

from __future__ import annotations

import base64
import gzip
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from math import isfinite
from typing import Any

from regard.visualisation.colours import OPACITY, VEIL
from regard.visualisation.fonts import face
from regard.visualisation.html import (
    OPEN_PLAYER,
    STACK,
    SYSTEM_FONTS,
    asset,
    fill_page,
    fill_template,
    own_policy,
    page_style,
    palette,
    script_json,
)
from regard.visualisation.text import clean

SCRIPTS = " 'wasm-unsafe-eval'; worker-src blob:"
"""Addition to the scripts that the page allows itself: the library, and the worker that runs it."""


@dataclass(frozen=True)
class Trust:
    """Agreement of the attention that is shown with attribution measures: rank correlations, −1 to 1, by measure."""

    sentences: int  # that it was measured on
    agreement: Mapping[str, float]


@dataclass(frozen=True)
class LiveModel:
    """A model of a live page: its runtime file, and what the page says of it.

    `languages`: of source and target as in HTML, such as "en"; empty if unknown. `alignment`: the head that is shown
    first, as in the card of the file. `example`: the text that the page opens with.
    """

    content: bytes
    languages: tuple[str, str] = ("", "")
    alignment: Mapping[str, Any] | None = None
    example: str = ""
    readme: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    trust: Trust | None = None


def render_live_page(models: Sequence[LiveModel], wasm: bytes) -> str:
    """Render the page of one model, or of two models of opposite directions; `wasm` is the library for browsers."""
    values = {"endpoint": "", "palette": palette(), "veil": [*VEIL, OPACITY], "models": [_values(m) for m in models]}
    packed = [_packed(content) for content in (wasm, *(model.content for model in models))]
    scripts = [f'<script type="text/plain" class="file">{text}</script>' for text in packed]
    scripts += [
        f'<script type="text/plain" id="worker">\n{_module()}\n{asset("live_data.js")}\n{asset("worker.js")}</script>'
    ]
    scripts += [f"<script>\n{asset('supported.js')}</script>"]
    source, target = models[0].languages
    parts = {
        "title": escape(f"{source} → {target}" if source and target else "Regard"),
        "policy": own_policy(scripts=SCRIPTS),
        "css": _style(),
        "top": asset("offline.html") + asset("live.html"),
        "facts": asset("about.html"),
        "open_player": OPEN_PLAYER,
        "payload": "\n".join(scripts) + "\n",
        "js": "\n".join(map(asset, ("page.js", "live_data.js", "live.js", "offline.js"))),
        "data": script_json(values),
    }
    return fill_page(parts)


@cache
def _style() -> str:
    """Return the CSS: the glyphs of names and labels come with the page, other text has the fonts of the machine."""
    names = ("offline.html", "live.html", "about.html", "page.html", "page.js", "live.js")
    letters = "".join(sorted({*string.printable, *"".join(map(asset, names))}))
    return "\n".join((face(letters), page_style(SYSTEM_FONTS), fill_template(asset("live.css"), {"ui": STACK})))


def _values(model: LiveModel) -> dict[str, Any]:
    return {
        "languages": model.languages,
        "alignment": model.alignment,
        "example": clean(model.example),
        "readme": model.readme,
        "facts": {clean(name): clean(value) for name, value in model.facts.items()},
        "trust": _trust(model.trust),
    }


def _trust(trust: Trust | None) -> dict[str, Any] | None:
    if trust is None:
        return None
    agreement = [[name, round(value, 2) if isfinite(value) else None] for name, value in trust.agreement.items()]
    return {"sentences": trust.sentences, "agreement": agreement}


def _module() -> str:
    """Return the module of the runtime as a plain script: a page from disk may not have workers that are modules."""
    text = files("regard.runtime").joinpath("js/regard.js").read_text(encoding="utf-8")
    return re.sub("^export ", "", text, flags=re.MULTILINE).replace("import.meta.url", "location.href")


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")
