"""Clean text for figures: one line, NFC-normalised, without control characters; Hangul and
bidirectional text.
"""

from __future__ import annotations

import unicodedata

from regard.data.text import nfc

_FIRST_STRONG_ISOLATE = "\u2068"
_POP_ISOLATE = "\u2069"


def clean(text: str) -> str:
    """Make a text safe for XML, HTML and figures: NFC, on one line, without control characters."""
    forbidden = {
        c
        for c in text
        if unicodedata.category(c) in {"Cc", "Cs"} or c in "\ufffe\uffff"
    }
    return "".join(
        " " if c in "\t\n\r" else "\ufffd" if c in forbidden else c for c in nfc(text)
    )


def is_korean(text: str) -> bool:
    """Return whether a text contains Hangul, and is to be marked up as Korean."""
    return any("\uac00" <= c <= "\ud7a3" or "\u3131" <= c <= "\u318e" for c in text)


def isolated(word: str) -> str:
    """Wrap a right-to-left word in isolates, so that it does not reorder the line in which it is
    quoted.
    """
    if any(unicodedata.bidirectional(c) in {"R", "AL"} for c in word):
        return f"{_FIRST_STRONG_ISOLATE}{word}{_POP_ISOLATE}"
    return word
