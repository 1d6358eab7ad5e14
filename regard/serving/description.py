"""Convert the description that a model gives of itself to the data that the server needs.

A description is the dictionary that the method `about` of a served model returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.common.errors import UsageError
from regard.data.language_codes import canonical_code, code_exists
from regard.data.language_id import LanguageId
from regard.serving.service import Pair, ServedModel


def served_model(
    name: str, description: Mapping[str, Any], languages: Pair | None
) -> ServedModel:
    """Return a model as requests see it.

    `languages`: language codes that the operator gave it, in place of those of its model card.
    """
    card = description["card"]
    codes = dict[str, str]()
    if languages is None:
        for code in card.get("language_codes", ()):
            language = code.strip("<>")
            if code_exists(language):
                language = canonical_code(language)
            codes.setdefault(language, code)

    source, target = languages or card.get("languages") or ("", "")
    pairs = tuple((source, language) for language in codes) or ((source, target),)
    if description["kind"] == "captions":
        pairs = (("", target),)

    facts = {
        "engine": description["engine"],
        "precision": card["precision"],
        "parameters": f"{card['parameters']:,}",
    }
    for key in ("fingerprint", "regard"):
        if key in card:
            facts[key] = card[key]
    return ServedModel(
        name,
        description["kind"],
        pairs,
        description["has_attention"],
        codes,
        facts,
        card["readme"],
        card.get("alignment"),
    )


def check_languages(description: Mapping[str, Any], languages: Pair | None) -> None:
    """Raise UsageError unless a captioner is given one language, and a translation model two."""
    if languages is None:
        return
    source, target = languages
    if description["kind"] == "captions" and source:
        raise UsageError(
            f"--languages {source},{target}: this model captions images; give one code, such as en"
        )
    if description["kind"] == "translation" and not source:
        raise UsageError(
            f"--languages {target}: this model translates; give source and target, such as ko,en"
        )


def known_languages(
    description: Mapping[str, Any], languages: Pair | None
) -> LanguageId:
    """Return the language identification of a model, for the codes that it is served under."""
    language_id = LanguageId({})
    try:
        if description["language_id"]:
            language_id = LanguageId.parse(description["language_id"].encode())
    except ValueError:
        return LanguageId({})
    if languages is None:
        return language_id
    card_languages = description["card"].get("languages") or ("", "")
    return language_id.renamed(dict(zip(card_languages, languages, strict=True)))
