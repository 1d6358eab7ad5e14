"""Translate the words of figures: the code holds the English text, which is the key of the Korean
text in `korean.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from regard.common.bilingual import Language
from regard.common.reading import package_toml

LANGUAGE: ContextVar[Language] = ContextVar("language", default="en")
"""The language of the figures that are drawn in this context."""


@contextmanager
def figures_in(language: Language) -> Iterator[None]:
    """Draw the figures of the block in a language."""
    token = LANGUAGE.set(language)
    try:
        yield
    finally:
        LANGUAGE.reset(token)


def words(english: str, **values: Any) -> str:
    """Return words in the language of figures, with their {placeholders} filled in.

    Words without a Korean translation stay English.
    """
    text = _korean().get(english, english) if LANGUAGE.get() == "ko" else english
    return text.format(**values) if values else text


@cache
def _korean() -> dict[str, str]:
    return package_toml("regard.visualisation", "korean.toml")
