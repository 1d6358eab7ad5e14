"""Text as users give it, made fit for pictures: one line, composed, with its script known."""

from __future__ import annotations

import unicodedata

__all__ = ["clean", "is_korean", "isolated"]

_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"


def clean(text: str) -> str:
    """A text that can stand in XML, HTML and a picture: composed, on one line, without control characters."""
    composed = unicodedata.normalize("NFC", text)
    return "".join(" " if c in "\t\n\r" else "\ufffd" if _is_forbidden(c) else c for c in composed)


def _is_forbidden(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cs"} or character in "\ufffe\uffff"


def is_korean(text: str) -> bool:
    """Whether a text holds Hangul, and should be read out and drawn as Korean."""
    return any("\uac00" <= c <= "\ud7a3" or "\u3131" <= c <= "\u318e" for c in text)


def isolated(word: str) -> str:
    """A word that keeps its order to itself: right-to-left words do not turn round the line they are quoted in."""
    if any(unicodedata.bidirectional(c) in {"R", "AL"} for c in word):
        return f"{_FIRST_STRONG_ISOLATE}{word}{_POP_ISOLATE}"
    return word
