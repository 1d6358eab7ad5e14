"""Texts in English and in Korean, for what teaches: experiments and worked examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "ko"]


@dataclass(frozen=True)
class Text:
    """A text in English and in Korean."""

    en: str
    ko: str

    def by(self, language: Language) -> str:
        """The text in one of the languages."""
        return self.ko if language == "ko" else self.en


Words = Text | str
"""A text in both languages, or one that is the same in both, such as a number."""


def words_by(words: Words, language: Language) -> str:
    """Return words in one of the languages."""
    return words if isinstance(words, str) else words.by(language)
