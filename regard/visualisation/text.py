"""Prepare text for figures: clean it, recognise Korean, and isolate right-to-left words."""

from __future__ import annotations

import unicodedata

from regard.data.text import nfc

_FIRST_STRONG_ISOLATE = "\u2068"
_POP_ISOLATE = "\u2069"


def clean(text: str) -> str:
    """Make a text safe for XML, HTML and figures: NFC, on one line, without control characters."""
    return "".join(_safe(character) for character in nfc(text))


def _safe(character: str) -> str:
    """Replace white space by a space, and a character that XML forbids by U+FFFD."""
    if character in "\t\n\r":
        return " "
    if unicodedata.category(character) in {"Cc", "Cs"} or character in "\ufffe\uffff":
        return "\ufffd"
    return character


def is_korean(text: str) -> bool:
    """Return whether a text contains Hangul, so that it is marked up as Korean."""
    return any("\uac00" <= c <= "\ud7a3" or "\u3131" <= c <= "\u318e" for c in text)


def isolated(word: str) -> str:
    """Enclose a right-to-left word in Unicode isolates, so that it does not reorder the line around
    it.
    """
    if any(unicodedata.bidirectional(c) in {"R", "AL"} for c in word):
        return f"{_FIRST_STRONG_ISOLATE}{word}{_POP_ISOLATE}"
    return word
