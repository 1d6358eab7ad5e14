"""Live page: one HTML file that translates and explains offline, with the models and the runtime
library inside.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from math import isfinite
from typing import Any

from regard.visualisation.html import script_colours
from regard.visualisation.sentence_rules import sentence_rules
from regard.visualisation.template import make_page
from regard.visualisation.text import clean

_EXPORT = re.compile(
    r"^export (?:async )?(?:class|const|function\*?) (\w+)", re.MULTILINE
)
_IMPORT = re.compile(r'^import [^;]*? from "\./(\w+\.js)";\n', re.MULTILINE)


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
    """

    content: bytes
    languages: tuple[str, str] = ("", "")
    alignment: Mapping[str, Any] | None = None
    examples: Sequence[str] = ()
    readme: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    trust: Trust | None = None
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)


def render_live_page(models: Sequence[LiveModel], wasm: bytes) -> str:
    """Render the page of one model, or of two models of opposite directions.

    `wasm` is the runtime library, compiled for browsers.
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
        runtime=module_script(),
    )


def module_script() -> str:
    """Return the JavaScript module regard.js and its imports as one script.

    Browsers refuse to load modules into a page that is opened from disk.
    """
    texts = dict[str, str]()
    _add_module("regard.js", texts)
    return "".join(texts.values()).replace("import.meta.url", "location.href")


def _add_module(name: str, texts: dict[str, str]) -> None:
    """Add a module after its imports, as a function call that returns its exports."""
    text = resources.files("regard.runtime").joinpath("js", name).read_text("utf-8")
    for other in _IMPORT.findall(text):
        if other not in texts:
            _add_module(other, texts)
    exported = f"{{ {', '.join(_EXPORT.findall(text))} }}"
    body = re.sub("^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE)
    texts[name] = f"const {exported} = (() => {{\n{body}\nreturn {exported};\n}})();\n"


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
        "examples": [clean(example) for example in model.examples],
        "facts": {clean(name): clean(value) for name, value in model.facts.items()},
        "trust": trust,
    }
