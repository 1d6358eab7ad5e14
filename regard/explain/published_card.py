"""Card of published models: `README.md`, with metadata that Hugging Face reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from regard.common.markdown import escape_text
from regard.common.version import __version__
from regard.data.language_codes import base_language
from regard.explain.licences import licence_address, licence_on_hugging_face
from regard.explain.published_checklist import model_items
from regard.explain.published_model import LICENCE, PublishedModel, PublishedModels
from regard.text.quality import DOUBTFUL
from regard.training.journal import scores_of
from regard.training.model_card import describe_making, summary
from regard.visualisation.template import make_page

_VERSIONS = {
    "regard": "Regard",
    "torch": "PyTorch",
    "python": "Python",
    "processor": "processor",
    "device": "device",
}
"""Words for what a model was made with, by its keys in the journal."""


def card_body(
    published: PublishedModels,
    command: str,
    is_inside: bool,
    sizes: Mapping[str, int] | None = None,
) -> str:
    """Return the card without its metadata; `command` writes the folder again.

    A card that `is_inside` page and runtime file does not lead to the page. `sizes`: those of the
    other files in the folder, in bytes.
    """
    card = make_page(
        "regard.explain",
        "card.md",
        published=published,
        models=published.models,
        command=command,
        is_inside=is_inside,
        items=model_items,
        sizes=sizes,
        address=licence_address(published.licence),
        version=__version__,
        labels=_VERSIONS,
        summary=_summary,
        making=_making,
        doubtful=DOUBTFUL,
    )
    return f"{card.strip()}\n"


def card_metadata(published: PublishedModels) -> str:
    """Return the metadata at the head of a card, as YAML between two lines of dashes."""
    captions = published.models[0].is_captioner
    task = "image-to-text" if captions else "translation"
    codes = (base_language(code) for code in published.models[0].languages.codes)
    values: dict[str, Any] = {
        "title": published.title,
        "language": [code for code in codes if re.fullmatch("[a-z]{2,3}", code)],
    }
    if published.licence:
        name = licence_on_hugging_face(published.licence)
        values["license"] = name
        if name == "other":
            values["license_name"] = published.licence.lower().replace(" ", "-")
            if published.licence_text:
                values["license_link"] = LICENCE
    values |= {
        "library_name": "regard",
        "pipeline_tag": task,
        "tags": [task, "regard"],
        "metrics": [],
        "model-index": [],
    }
    for model in published.models:
        data, scores = _scores(model)
        if scores:
            values["metrics"] += [score["type"] for score in scores]
            result = {
                "task": {"type": task},
                "dataset": {"type": "regard", "name": data},
                "metrics": scores,
            }
            values["model-index"].append({"name": model.title, "results": [result]})
    values["metrics"] = sorted({*values["metrics"]})
    # A static Space of Hugging Face shows the page.
    values |= {"sdk": "static", "app_file": "index.html"}
    lines = _yaml({name: value for name, value in values.items() if value})
    return "\n".join(["---", *lines, "---", ""])


def _summary(model: PublishedModel) -> str:
    if model.record.recipe is not None:
        return summary(model.record, model.record.recipe)
    return f"{escape_text(model.title)}. How it was trained is not recorded."


def _making(model: PublishedModel) -> str:
    """Describe how a model was made, or return what its own card tells of it."""
    if model.record.recipe is not None:
        return describe_making(model.record, model.settings.quality, model.recipe_file)
    readme = model.folder / "README.md"
    if not readme.is_file():
        return "That is not recorded."
    title, _, rest = readme.read_text("utf-8", "replace").partition("\n")
    return rest.strip().replace("\n## ", "\n### ") or escape_text(title.strip("# "))


def _scores(model: PublishedModel) -> tuple[str, list[dict[str, Any]]]:
    """Return the data that a model was scored on, and the scores for the metadata."""
    record = model.record
    test = record.last("test")
    if test:
        scores = [
            {
                "type": score["name"].lower(),
                "value": round(score["value"], 2),
                "name": f"{score['name']} (95 %: {score['low']:.1f} to {score['high']:.1f})",
            }
            for score in test["scores"]
        ]
        return f"{test['pairs']} test pairs", scores
    names = {"chrf": "chrF", "bleu": "BLEU", "cider": "CIDEr-D"}
    scores = [
        {"type": name, "value": round(value, 2), "name": names[name]}
        for name, value in scores_of(record.best).items()
        if name in names
    ]
    return f"{record.pairs('valid') or 'the'} validation {model.noun}s", scores


def _yaml(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines of YAML; each value is written as JSON, which YAML reads."""
    for name, value in values.items():
        yield f"{name}: {json.dumps(value, ensure_ascii=False)}"
