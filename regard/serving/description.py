"""A model's own account of itself as requests see it, and the languages that it tells apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.common.errors import UsageError
from regard.data.language_codes import canonical_code, code_exists
from regard.data.language_id import LanguageId
from regard.serving.service import Pair, ServedModel


def served_model(
    name: str, about: Mapping[str, Any], languages: Pair | None
) -> ServedModel:
    """Return a model as requests see it; `languages`: the names that it is served under."""
    card = about["card"]
    codes = dict[str, str]()
    source, target = languages or card.get("languages") or ("", "")
    for code in card.get("language_codes", ()) if languages is None else ():
        language = code.strip("<>")
        codes.setdefault(
            canonical_code(language) if code_exists(language) else language, code
        )
    pairs = tuple((source, code) for code in codes) or ((source, target),)
    facts = {
        "engine": about["engine"],
        "precision": card["precision"],
        "parameters": f"{card['parameters']:,}",
    }
    facts |= {key: card[key] for key in ("fingerprint", "regard") if key in card}
    if about["kind"] == "captions":
        pairs = (("", target),)
    alignment = card.get("alignment")
    return ServedModel(
        name,
        about["kind"],
        pairs,
        about["has_attention"],
        codes,
        facts,
        card["readme"],
        alignment,
    )


def check_languages(about: Mapping[str, Any], languages: Pair | None) -> None:
    """Raise UsageError if a model is not served under as many languages as it has: captions have
    one.
    """
    if languages is None:
        return
    source, target = languages
    if about["kind"] == "captions" and source:
        raise UsageError(
            f"--languages {source},{target}: this model captions images; give one code, such as en"
        )
    if about["kind"] == "translation" and not source:
        raise UsageError(
            f"--languages {target}: this model translates; give source and target, such as ko,en"
        )


def known_languages(about: Mapping[str, Any], languages: Pair | None) -> LanguageId:
    """Return how the languages of a model are told apart, by the names that it is served under."""
    try:
        language_id = (
            LanguageId.parse(about["language_id"].encode())
            if about["language_id"]
            else LanguageId({})
        )
    except ValueError:
        return LanguageId({})
    own = about["card"].get("languages") or ("", "")
    return (
        language_id.renamed(dict(zip(own, languages, strict=True)))
        if languages
        else language_id
    )
