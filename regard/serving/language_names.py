"""English names of languages, for the lists that the APIs return."""

from __future__ import annotations

from regard.data.languages import english_name

NAMES = {"src": "Source language", "tgt": "Target language"}
"""Names for the placeholder codes of a model whose languages are unknown."""


def language_name(code: str) -> str:
    """Return the English name of a language, with region or script in brackets, or the code of an
    unknown language.
    """
    return NAMES.get(code) or english_name(code)
