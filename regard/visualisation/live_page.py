"""Live page: one HTML file that translates and explains offline, with the models and the runtime
library inside.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from regard.visualisation.html import script_colours
from regard.visualisation.sentence_rules import sentence_rules
from regard.visualisation.template import make_page
from regard.visualisation.text import clean


@dataclass(frozen=True)
class Trust:
    """Agreement of the shown attention with each attribution measure: rank correlations, −1 to 1.

    `sentences`: number of sentences on which it was measured.
    """

    sentences: int
    agreement: Mapping[str, float]


@dataclass(frozen=True)
class LiveModel:
    """A model of a live page: the content of its runtime file, and its description.

    - `languages`: codes of source and target as in HTML, such as "en"; empty if unknown.
    - `alignment`: the head that is shown first, as in the card of the file.
    - `examples`: sentences to try; the page opens with the first one.
    - `names`: names of languages by code, in English and Korean, since browsers lack many of them.
    - `greeting`: words of the publisher, in Markdown, at the head of the page.
    """

    content: bytes
    languages: tuple[str, str] = ("", "")
    alignment: Mapping[str, Any] | None = None
    examples: Sequence[str] = ()
    readme: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    trust: Trust | None = None
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    greeting: str = ""


def render_live_page(models: Sequence[LiveModel], wasm: bytes, script: str) -> str:
    """Render the page of one model, or of two models of opposite directions.

    `wasm` is the runtime library, compiled for browsers; `script` is the module that calls it.
    """
    source, target = models[0].languages
    data = {
        "endpoint": "",
        "sentences": sentence_rules(),
        **script_colours(),
        "models": [_values(model) for model in models],
    }
    files = [
        base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")
        for content in (wasm, *(model.content for model in models))
    ]
    return make_page(
        "regard.visualisation",
        "offline.html",
        title=f"{source} → {target}" if source and target else "Regard",
        data=data,
        files=files,
        runtime=script,
    )


def _values(model: LiveModel) -> dict[str, Any]:
    """Return the JSON values of a model, without its content."""
    trust = None
    if model.trust is not None:
        agreement = [
            [measure, round(value, 2) if isfinite(value) else None]
            for measure, value in model.trust.agreement.items()
        ]
        trust = {"sentences": model.trust.sentences, "agreement": agreement}
    return {
        "languages": model.languages,
        "names": model.names,
        "alignment": model.alignment,
        "readme": model.readme,
        "greeting": model.greeting,
        "examples": [clean(example) for example in model.examples],
        "facts": {clean(name): clean(value) for name, value in model.facts.items()},
        "trust": trust,
    }
