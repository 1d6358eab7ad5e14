"""Live page: one HTML file with models, library and the page of an explanation, which translates
offline.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
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
    """Agreement of the attention that is shown with attribution measures: rank correlations, −1 to
    1, by measure.
    """

    sentences: int  # that it was measured on
    agreement: Mapping[str, float]


@dataclass(frozen=True)
class LiveModel:
    """A model of a live page: its runtime file, and what the page says of it.

    `languages`: of source and target as in HTML, such as "en"; empty if unknown. `alignment`: the
    head that is shown first, as in the card of the file. `examples`: sentences to try, the first of
    which the page opens with. `names`: of languages by their code, in English and Korean, since few
    browsers know the smaller ones.
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
    """Render the page of one model, or of two models of opposite directions; `wasm` is the library
    for browsers.
    """
    source, target = models[0].languages
    packed = [
        gzip.compress(content, 9, mtime=0)
        for content in (wasm, *(model.content for model in models))
    ]
    return make_page(
        "regard.visualisation",
        "offline.html",
        title=f"{source} → {target}" if source and target else "Regard",
        data={
            "endpoint": "",
            "sentences": sentence_rules(),
            **script_colours(),
            "models": [_values(model) for model in models],
        },
        files=[base64.b64encode(content).decode("ascii") for content in packed],
        runtime=module_script(),
    )


def module_script() -> str:
    """Return the JavaScript module, and those that it imports, as one script: a page from disk may
    load no modules.
    """
    texts = dict[str, str]()
    _add_module("regard.js", texts)
    return "".join(texts.values()).replace("import.meta.url", "location.href")


def _add_module(name: str, texts: dict[str, str]) -> None:
    """Add a module, in a scope of its own that returns what it exports, after those that it
    imports.
    """
    text = files("regard.runtime").joinpath("js", name).read_text(encoding="utf-8")
    for other in _IMPORT.findall(text):
        if other not in texts:
            _add_module(other, texts)
    exported = f"{{ {', '.join(_EXPORT.findall(text))} }}"
    body = re.sub("^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE)
    texts[name] = f"const {exported} = (() => {{\n{body}\nreturn {exported};\n}})();\n"


def _values(model: LiveModel) -> dict[str, Any]:
    """Return all but the content."""
    same = {
        name: getattr(model, name)
        for name in ("languages", "names", "alignment", "readme")
    }
    facts = {clean(name): clean(value) for name, value in model.facts.items()}
    measured = model.trust.agreement.items() if model.trust else ()
    agreement = [
        [name, round(value, 2) if isfinite(value) else None] for name, value in measured
    ]
    trust = (
        {"sentences": model.trust.sentences, "agreement": agreement}
        if model.trust
        else None
    )
    return {
        **same,
        "examples": [*map(clean, model.examples)],
        "facts": facts,
        "trust": trust,
    }
