"""English names of languages by code, as the clients' lists show them."""

from __future__ import annotations

from regard.data.languages import language_names

NAMES = {
    "en-GB": "English (British)",
    "en-US": "English (American)",
    "pt-BR": "Portuguese (Brazilian)",
    "pt-PT": "Portuguese (European)",
    "zh-Hans": "Chinese (simplified)",
    "zh-Hant": "Chinese (traditional)",
    "src": "Source language",
    "tgt": "Target language",
}
"""Names that those of Unicode CLDR do not have."""


def language_name(code: str) -> str:
    """Return the English name of a language, with its region or script in brackets; the code if nothing is known."""
    base, _, rest = code.partition("-")
    own = language_names().get(base)
    if own is None or code in NAMES:
        return NAMES.get(code, code)
    return f"{own[0]} ({rest})" if rest else own[0]
