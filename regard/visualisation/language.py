"""Words of figures in English and in Korean: the code has the English, by which `korean.toml` has
the Korean.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import Any

from regard.common.bilingual import Language
from regard.common.reading import package_toml

LANGUAGE: ContextVar[Language] = ContextVar("language", default="en")
"""The language of the figures that are drawn in this context."""


def words(english: str, **values: Any) -> str:
    """Return words in the language of figures, their {placeholders} filled in; what has no Korean
    stays as it is.
    """
    text = _korean().get(english, english) if LANGUAGE.get() == "ko" else english
    return text.format(**values) if values else text


@cache
def _korean() -> dict[str, str]:
    return package_toml("regard.visualisation", "korean.toml")
