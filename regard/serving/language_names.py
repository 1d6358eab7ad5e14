"""English names of languages by code, as the clients' lists show them."""

from __future__ import annotations

from regard.data.languages import english_name

NAMES = {"src": "Source language", "tgt": "Target language"}
"""Names of the languages of a model that does not name them."""


def language_name(code: str) -> str:
    """Return the English name of a language, with its region or script in brackets; the code if
    nothing is known.
    """
    return NAMES.get(code) or english_name(code)
